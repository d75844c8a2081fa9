/* Spans of memory cut from regions. One that is given back is joined with its free neighbours, so that blocks of
 * other sizes can be cut from what was touched before: the first touch of a page costs more than most kernels do
 * with it. The GIL guards everything here.
 */
#include "pyabi.h"
#include "tc_abi.h"
#include <sys/mman.h>
#include <unistd.h>

enum {
  SPAN_HEADER = 64,
  SPAN_LEAST = 4 << 10, /* what is left of a cut becomes a span from this size on */
  REGION = 64 << 20,    /* of addresses: memory comes as it is touched */
  SPAN_BINS = 128,      /* by size, eight for each power of two */
  SPANS_SEEN = 8        /* of the bin in which some are too small */
};

typedef enum { SPAN_USED, SPAN_COLD, SPAN_WARM, SPAN_END } SpanState; /* warm: half of it or more was touched */

/* The header of a span; data follow it. */
typedef struct Span {
  size_t bytes;        /* with this header */
  struct Span *before; /* its neighbour in the region, or NULL */
  struct Span *next, *prev; /* of the same bin */
  size_t touched; /* of a free one, how much memory the system has given for it, at most */
  SpanState state;
} Span;

_Static_assert(sizeof(Span) <= SPAN_HEADER, "the header fits in front of the data");

static struct {
  Span *bin[2][SPAN_BINS];
  tc_u64 filled[2][SPAN_BINS / 64]; /* a bit for each bin that has a span */
  Span *last;                       /* of the newest region, of which [top, end) was never used; or NULL */
  char *top, *end;
  size_t touched; /* of free spans */
} arena;

/* The bin of spans of so many bytes, and of a little more. */
static int bin_of(size_t bytes) {
  int log = 63 - __builtin_clzll((unsigned long long)bytes), b = (log - 12) * 8 + (int)(bytes >> (log - 3) & 7);
  return b < 0 ? 0 : b < SPAN_BINS ? b : SPAN_BINS - 1;
}

static Span **bin_for(const Span *s) { return &arena.bin[s->state == SPAN_WARM][bin_of(s->bytes)]; }

static inline int is_free(const Span *s) { return s->state == SPAN_COLD || s->state == SPAN_WARM; }

static void put_in_bin(Span *s) {
  s->state = 2 * s->touched >= s->bytes ? SPAN_WARM : SPAN_COLD;
  Span **bin = bin_for(s);
  int b = bin_of(s->bytes);
  s->prev = NULL;
  s->next = *bin;
  if (s->next) s->next->prev = s;
  *bin = s;
  arena.filled[s->state == SPAN_WARM][b / 64] |= (tc_u64)1 << b % 64;
  arena.touched += s->touched;
}

static void take_from_bin(Span *s) {
  int b = bin_of(s->bytes), warm = s->state == SPAN_WARM;
  if (s->next) s->next->prev = s->prev;
  if (s->prev)
    s->prev->next = s->next;
  else if (!(*bin_for(s) = s->next))
    arena.filled[warm][b / 64] &= ~((tc_u64)1 << b % 64);
  s->state = SPAN_USED;
  arena.touched -= s->touched;
}

/* The neighbour above, which is no span of the open end of the newest region. */
static Span *span_after(const Span *s) {
  char *at = (char *)s + s->bytes;
  return at == arena.top ? NULL : (Span *)at;
}

/* A free span has got another end. */
static void tell_neighbour(Span *s) {
  Span *after = span_after(s);
  if (after)
    after->before = s;
  else
    arena.last = s;
}

/* A free span of at least so many bytes, or NULL. */
static Span *fitting(int warm, size_t bytes) {
  int b = bin_of(bytes), seen = 0;
  for (Span *s = arena.bin[warm][b]; s && seen < SPANS_SEEN; s = s->next, seen++)
    if (s->bytes >= bytes) return s;
  for (int w = ++b / 64; w < SPAN_BINS / 64; w++) {
    tc_u64 left = arena.filled[warm][w] & (w == b / 64 ? ~(tc_u64)0 << b % 64 : ~(tc_u64)0);
    if (left) return arena.bin[warm][w * 64 + __builtin_ctzll(left)];
  }
  return NULL;
}

/* Take a free span for so many bytes; what is left stays free. */
static void *cut(Span *s, size_t bytes) {
  take_from_bin(s);
  if (s->bytes - bytes >= SPAN_LEAST) {
    Span *rest = (Span *)((char *)s + bytes);
    rest->bytes = s->bytes - bytes;
    rest->touched = s->touched > bytes ? s->touched - bytes : 0;
    rest->before = s;
    s->bytes = bytes;
    tell_neighbour(rest);
    put_in_bin(rest);
  }
  return (char *)s + SPAN_HEADER;
}

/* Lengthen the last span of the newest region, if it is free, or make one: free, so long. NULL: there is no room. */
static Span *lengthened(size_t bytes) {
  Span *s = arena.last && is_free(arena.last) ? arena.last : NULL;
  if (s && s->bytes >= bytes) return s;
  size_t more = s ? bytes - s->bytes : bytes;
  if ((size_t)(arena.end - arena.top) < more) return NULL;
  if (s) {
    take_from_bin(s);
    s->bytes = bytes;
  } else {
    s = (Span *)arena.top;
    s->bytes = bytes;
    s->before = arena.last;
    s->touched = 0;
    arena.last = s;
  }
  arena.top += more;
  put_in_bin(s);
  return s;
}

/* What was never used of the newest region becomes part of its last span. */
static void close_region(void) {
  if (!arena.top) return;
  Span *s = arena.last, *end = (Span *)arena.end;
  size_t rest = (size_t)(arena.end - arena.top);
  if (rest >= SPAN_LEAST)
    s = lengthened(rest + (s && is_free(s) ? s->bytes : 0));
  else if (is_free(s)) {
    take_from_bin(s);
    s->bytes += rest;
    put_in_bin(s);
  } else
    s->bytes += rest;
  end->state = SPAN_END;
  end->before = s;
  arena.last = NULL;
  arena.top = arena.end = NULL;
}

/* Take a new region, of just enough bytes where addresses are short; not 0 if there is none. */
static int open_region(size_t bytes) {
  size_t least = bytes + SPAN_HEADER, size = least > REGION ? least : REGION; /* with the mark of the end */
  char *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED && size > least) {
    size = least;
    start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (start == MAP_FAILED) return -1;
#ifdef MADV_NOHUGEPAGE
  madvise(start, size, MADV_NOHUGEPAGE); /* see the README: where a virtual machine gets memory at the first touch */
#endif
  close_region();
  arena.top = start;
  arena.end = start + size - SPAN_HEADER;
  return 0;
}

static size_t span_bytes(size_t bytes) { return (bytes + SPAN_HEADER + 63) & ~(size_t)63; }

/* Memory that was touched before, or NULL; aligned to 64 bytes. */
static void *arena_take_warm(size_t bytes) {
  Span *s = fitting(1, span_bytes(bytes));
  return s ? cut(s, span_bytes(bytes)) : NULL;
}

/* Memory of so many bytes, aligned to 64; NULL if there is none. */
static void *arena_take(size_t bytes) {
  size_t wanted = span_bytes(bytes);
  Span *s = fitting(1, wanted);
  if (!s && arena.last && arena.last->state == SPAN_WARM) s = lengthened(wanted);
  if (!s) s = fitting(0, wanted);
  if (!s) s = lengthened(wanted);
  if (!s && !open_region(wanted)) s = lengthened(wanted);
  return s ? cut(s, wanted) : NULL;
}

static void arena_give(void *data) {
  Span *s = (Span *)((char *)data - SPAN_HEADER), *after = span_after(s), *before = s->before;
  s->touched = s->bytes;
  if (after && is_free(after)) {
    take_from_bin(after);
    s->bytes += after->bytes;
    s->touched += after->touched;
  }
  if (before && is_free(before)) {
    take_from_bin(before);
    before->bytes += s->bytes;
    before->touched += s->touched;
    s = before;
  }
  tell_neighbour(s);
  put_in_bin(s);
}

/* Give the memory of free spans back to the system; how much that was, at most. */
static size_t arena_release(void) {
  size_t freed = arena.touched, page = (size_t)sysconf(_SC_PAGESIZE);
  Span *taken = NULL;
  for (int warm = 0; warm < 2; warm++)
    for (int b = 0; b < SPAN_BINS; b++)
      for (Span *s = arena.bin[warm][b], *next; s; s = next) {
        next = s->next;
        if (!s->touched) continue;
        take_from_bin(s);
        s->next = taken;
        taken = s;
      }
  while (taken) {
    Span *s = taken, *after = span_after(s);
    taken = s->next;
    if (!s->before && after && after->state == SPAN_END) { /* a region of which nothing is used */
      munmap(s, s->bytes + SPAN_HEADER);
      continue;
    }
    char *from = (char *)(((size_t)s + SPAN_HEADER + page - 1) & ~(page - 1));
    char *to = (char *)(((size_t)s + s->bytes) & ~(page - 1));
    if (from < to) madvise(from, (size_t)(to - from), MADV_DONTNEED);
    s->touched = 0;
    put_in_bin(s);
  }
  return freed;
}
