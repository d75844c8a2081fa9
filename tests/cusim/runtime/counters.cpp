// Memory transactions of each warp, as the hardware counts them, against the fewest possible.
#include <algorithm>

#include "machine.h"

namespace cusim {
namespace {
constexpr unsigned SECTOR = 32, BANKS = 32, BANK = 4;

size_t distinct(std::vector<uintptr_t> &v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
  return v.size();
}

// 32-byte sectors that a request to global memory moves.
void count_sectors(const std::vector<Touch> &lanes, Line &line) {
  std::vector<uintptr_t> sectors, bytes;
  for (const Touch &t : lanes) {
    for (auto s = t.address / SECTOR; s <= (t.address + t.size - 1) / SECTOR; s++)
      sectors.push_back(s);
    bytes.push_back(t.address);
  }
  line.moved += distinct(sectors);
  line.ideal += (distinct(bytes) * lanes[0].size + SECTOR - 1) / SECTOR;
}

// Passes over the banks of shared memory: lanes are served in halves or quarters of a warp where
// each asks for 8 or 16 bytes; within one pass a bank gives one word, to any number of lanes.
void count_wavefronts(const std::vector<Touch> &lanes, Line &line) {
  const size_t at_once = lanes[0].size >= 16 ? 8 : lanes[0].size == 8 ? 16 : 32;
  for (size_t first = 0; first < lanes.size(); first += at_once) {
    std::vector<uintptr_t> words;
    for (size_t i = first; i < std::min(lanes.size(), first + at_once); i++)
      for (auto w = lanes[i].address / BANK; w <= (lanes[i].address + lanes[i].size - 1) / BANK; w++)
        words.push_back(w);
    const size_t count = distinct(words);
    unsigned passes[BANKS] = {}, most = 0;
    for (const auto w : words) most = std::max(most, ++passes[w % BANKS]);
    line.moved += most;
    line.ideal += std::max<size_t>(1, (count + BANKS - 1) / BANKS);
  }
}
}  // namespace

// A request is what the lanes of a warp ask for the n-th time that each comes to a site.
void count_block() {
  Machine &m = *machine;
  for (size_t first = 0; first < m.threads; first += 32) {
    std::map<std::pair<const void *, uint32_t>, std::map<uint32_t, std::vector<Touch>>> sites;
    for (size_t i = first; i < std::min<size_t>(m.threads, first + 32); i++) {
      std::map<std::pair<const void *, uint32_t>, uint32_t> times;
      for (const Touch &t : m.touches[i]) {
        const std::pair<const void *, uint32_t> key{t.site, t.is_write * 2u + t.is_shared};
        sites[key][times[key]++].push_back(t);
      }
    }
    for (const auto &[key, requests] : sites) {
      const auto site = (uint64_t)((uintptr_t)key.first - m.image);
      Line &line = m.lines[{site, key.second}];
      const Touch &one = requests.begin()->second[0];
      line.site = site;
      line.is_write = one.is_write;
      line.is_shared = one.is_shared;
      line.size = one.size;
      line.requests += requests.size();
      for (const auto &[_, lanes] : requests)
        one.is_shared ? count_wavefronts(lanes, line) : count_sectors(lanes, line);
    }
  }
  for (auto &t : m.touches) t.clear();
}
}  // namespace cusim
