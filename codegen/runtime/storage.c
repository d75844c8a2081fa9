/* Memory of outputs and workspaces: size classes with a free list each.
 *
 * A block is a Python object: its header, 64 bytes, stands in front of 64-byte aligned data, and an
 * array over the block holds it as base. When the array dies the block returns to its list, so that
 * a large fresh output does not page-fault on each call. Where a list is empty, what waits in the
 * others is joined and cut anew (arena.c). The GIL guards everything here.
 */
#include "ndarray.h"
#include "tensor.h"
#include "arena.c"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
  HEADER = 64,
  SMALL_BYTES = 4 << 10, /* blocks below, with their header, are the C library's */
  HUGE_BYTES = 4 << 20,  /* blocks from there on are mappings of their own */
  HUGE_PAGE = 2 << 20,
  SIZE_CLASSES = 8 * 48,
  MOST_ABOVE = 2 /* classes by which a huge block may be larger than it has to be: a quarter */
};

_Static_assert(sizeof(Storage) <= HEADER, "the header fits in front of the data");

static PyTypeObject *storage_type;
static Storage *free_list[SIZE_CLASSES];
static size_t cached_bytes, cache_limit, live_bytes; /* live: what was asked for */

static inline char *storage_data(Storage *s) { return (char *)s + HEADER; }

/* 64, 72, 80, ..., 120, 128, 144, ...: at most an eighth is wasted. */
static int class_of(size_t bytes, size_t *rounded) {
  if (bytes <= 64) {
    *rounded = 64;
    return 0;
  }
  int log = 63 - __builtin_clzll((unsigned long long)bytes - 1);
  size_t step = (size_t)1 << (log - 3), up = (bytes + step - 1) & ~(step - 1);
  *rounded = up;
  return (log - 6) * 8 + (int)((up - ((size_t)1 << log)) / step);
}

/* Large blocks are mappings of their own: aligned so that huge pages can serve them, and given back to the
 * system when freed. */
static Storage *map_huge(size_t total) {
  char *start = mmap(NULL, total + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return NULL;
  char *aligned = (char *)(((size_t)start + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1));
  size_t head = (size_t)(aligned - start), tail = HUGE_PAGE - head;
  if (head) munmap(start, head);
  if (tail) munmap(aligned + total, tail);
#ifdef MADV_HUGEPAGE
  madvise(aligned, total, MADV_HUGEPAGE);
#endif
  return (Storage *)aligned;
}

/* The bytes of a block with its header, and with what its last page has beyond it where it is a mapping. */
static size_t total_of(size_t rounded) {
  size_t total = rounded + HEADER;
  return total < HUGE_BYTES ? total : (total + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
}

static inline int is_cut(size_t total) { return total >= SMALL_BYTES && total < HUGE_BYTES; }

static size_t cached_total(void) { return cached_bytes + arena.touched; }

static void block_free(Storage *s) {
  size_t total = total_of(s->bytes);
  if (is_cut(total))
    arena_give(s);
  else if (total >= HUGE_BYTES)
    munmap(s, total);
  else
    free(s);
  Py_DecRef((PyObject *)storage_type);
}

/* Free the blocks of classes [first, last) that wait. */
static void free_lists(int first, int last) {
  for (int c = first; c < last; c++)
    while (free_list[c]) {
      Storage *s = free_list[c];
      free_list[c] = s->next;
      cached_bytes -= s->bytes;
      block_free(s);
    }
}

static size_t empty_cache(void) {
  size_t freed = cached_total();
  free_lists(0, SIZE_CLASSES);
  arena_release();
  return freed;
}

/* Join what waits in the lists of blocks that are cut; whether there was any. */
static int join_lists(void) {
  size_t before = cached_bytes, rounded;
  free_lists(class_of(SMALL_BYTES - HEADER, &rounded), class_of(HUGE_BYTES - HEADER, &rounded));
  if (cached_total() > cache_limit) arena_release(); /* headers count too, once they are between */
  return before > cached_bytes;
}

static Storage *block_new(size_t rounded) {
  size_t total = total_of(rounded);
  if (total >= HUGE_BYTES) return map_huge(total);
  void *block;
  if (!is_cut(total)) return posix_memalign(&block, 64, total) ? NULL : block;
  if (!(block = arena_take_warm(total)) && join_lists()) block = arena_take_warm(total);
  return block ? block : arena_take(total);
}

/* A block of the class that waits in its list, or a huge one of the next classes; NULL where none does. */
static Storage *waiting(int c, size_t rounded) {
  int last = total_of(rounded) < HUGE_BYTES ? c : c + MOST_ABOVE;
  for (; c <= last && c < SIZE_CLASSES; c++)
    if (free_list[c]) {
      Storage *s = free_list[c];
      free_list[c] = s->next;
      cached_bytes -= s->bytes;
      return s;
    }
  return NULL;
}

/* A new reference to a block of at least so many bytes, contents undefined; NULL with MemoryError. */
static Storage *storage_new(size_t bytes) {
  if (bytes > (size_t)1 << 52) {
    PyErr_NoMemory();
    return NULL;
  }
  size_t rounded;
  int c = class_of(bytes, &rounded);
  Storage *s = waiting(c, rounded);
  if (!s) {
    s = block_new(rounded);
    if (!s && empty_cache()) s = block_new(rounded);
    if (!s) {
      PyErr_NoMemory();
      return NULL;
    }
    s->bytes = rounded;
    s->data = storage_data(s);
    s->stream = NULL;
    s->size_class = (short)c;
    s->device = 0;
    PyObject_Init(&s->ob_base, storage_type);
  }
  s->ob_base.ob_refcnt = 1; /* a block that waited is still of its type */
  s->version = 0;
  s->owner = NULL;
  s->spare = s->bytes - bytes < UINT_MAX ? (unsigned)(s->bytes - bytes) : UINT_MAX;
  live_bytes += s->bytes - s->spare;
  return s;
}

/* Who owns memory that is lent again, so that `x = x.data` or `x = from_numpy(x.numpy())` in a loop makes no chain. */
static PyObject *first_owner(PyObject *owner) {
  for (;;) {
    PyObject *root = owner;
    while (Py_TYPE(root) == numpy.array_type && ((Array *)root)->base) root = ((Array *)root)->base;
    if (Py_TYPE(root) != storage_type) return owner;
    if (((Storage *)root)->size_class >= 0) return root;
    owner = ((Storage *)root)->owner;
  }
}

/* Memory that somebody else owns, who is kept alive. */
static Storage *storage_lent(PyObject *owner, char *data, size_t bytes, int device) {
  owner = first_owner(owner);
  Storage *s = malloc(sizeof *s);
  if (!s) {
    PyErr_NoMemory();
    return NULL;
  }
  s->bytes = bytes;
  s->data = data;
  s->stream = NULL;
  s->version = 0;
  s->owner = Py_NewRef(owner);
  s->size_class = -1;
  s->device = (short)device;
  s->spare = 0;
  PyObject_Init(&s->ob_base, storage_type);
  return s;
}

static void storage_dealloc(Storage *s) {
  if (s->size_class < 0) {
    PyObject *owner = s->owner;
    free(s);
    Py_DecRef(owner);
    Py_DecRef((PyObject *)storage_type);
    return;
  }
  live_bytes -= s->bytes - s->spare;
  if (cached_total() + s->bytes > cache_limit)
    empty_cache(); /* blocks of sizes no longer in use would keep out those that are */
  if (s->bytes > cache_limit) {
    block_free(s);
    arena_release();
  } else {
    s->next = free_list[s->size_class];
    free_list[s->size_class] = s;
    cached_bytes += s->bytes;
  }
}

static PyMemberDef storage_members[] = {{"nbytes", T_PYSSIZET, offsetof(Storage, bytes), READONLY, NULL},
                                        {"spare", T_UINT, offsetof(Storage, spare), READONLY, NULL},
                                        {"data_ptr", T_PYSSIZET, offsetof(Storage, data), READONLY, NULL},
                                        {NULL, 0, 0, 0, NULL}};
static PyType_Slot storage_slots[] = {
    {Py_tp_dealloc, storage_dealloc}, {Py_tp_members, storage_members}, {0, NULL}};
static PyType_Spec storage_spec = {"tcdsl.codegen.runtime._core.Storage", sizeof(Storage), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, storage_slots};

static int storage_setup(void) {
  storage_type = (PyTypeObject *)PyType_FromSpec(&storage_spec);
  return storage_type ? 0 : -1;
}
