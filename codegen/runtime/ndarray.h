/* NumPy without its headers: the array struct, alike in NumPy 1 and 2, and three slots of its C table. */
#ifndef TC_NDARRAY_H
#define TC_NDARRAY_H
#include "pyabi.h"

typedef struct {
  PyObject ob_base;
  char *data;
  int nd;
  Py_ssize_t *dims, *strides; /* strides in bytes */
  PyObject *base;
  struct Descr *descr;
  int flags;
} Array;

typedef struct Descr { /* as far as both versions agree */
  PyObject ob_base;
  PyTypeObject *typeobj;
  char kind, type, byteorder, former_flags;
  int type_num;
} Descr;

enum { ARRAY_C_CONTIGUOUS = 1, ARRAY_ALIGNED = 0x100, ARRAY_WRITEABLE = 0x400 };
enum { NUM_BOOL = 0, NUM_FLOAT = 11, NUM_DOUBLE = 12, NUM_HALF = 23, MAX_DIMS = 64 };

typedef PyObject *(*NewFromDescr)(PyTypeObject *, Descr *, int, const Py_ssize_t *, const Py_ssize_t *,
                                  void *, int, PyObject *);
typedef int (*SetBaseObject)(Array *, PyObject *);

static struct {
  PyTypeObject *array_type, *descr_type;
  NewFromDescr new_from_descr; /* steals the descr */
  SetBaseObject set_base;      /* steals the base */
  int bfloat16;                /* the number ml_dtypes' type was given in this process */
} numpy;

static int item_bytes_of(int type_num) {
  static const unsigned char bytes[] = {1, 1, 1, 2, 2, 4, 4, sizeof(long), sizeof(long), 8, 8, 4, 8};
  return type_num <= NUM_DOUBLE ? bytes[type_num] : 2; /* float16, bfloat16 */
}

/* Whether these are plain numbers of the language in native byte order. */
static inline int is_plain(const Descr *d) {
  unsigned n = (unsigned)d->type_num;
  return (n <= NUM_DOUBLE || n == NUM_HALF || d->type_num == numpy.bfloat16) &&
         (d->byteorder == '=' || d->byteorder == '|');
}

/* Whether the fast path may read this object as an array. */
static inline int is_array(PyObject *o) {
  return Py_TYPE(o) == numpy.array_type && (((Array *)o)->flags & ARRAY_ALIGNED) &&
         is_plain(((Array *)o)->descr);
}

/* Whether this is a dtype: the classes of NumPy's own types are subclasses of numpy.dtype. */
static inline int is_descr(PyObject *o) { return PyType_IsSubtype(Py_TYPE(o), numpy.descr_type); }

static int numpy_setup(PyObject *capsule, int bfloat16) {
  void **table = PyCapsule_GetPointer(capsule, NULL);
  if (!table) return -1;
  numpy.array_type = table[2];
  numpy.descr_type = table[3];
  numpy.new_from_descr = (NewFromDescr)table[94];
  numpy.set_base = (SetBaseObject)table[282];
  numpy.bfloat16 = bfloat16;
  return 0;
}
#endif
