/* Tensors of our own library: arrays whose layout, memory and fresh outputs the launcher knows without asking.
 *
 * That library (tcdsl/core) is another shared object; the two hand each other a table of functions.
 */
#ifndef TC_TENSOR_H
#define TC_TENSOR_H
#include "pyabi.h"
#include "tc_abi.h"

enum { TC_TENSOR_ABI = 3 };
#define TC_TENSORS_NAME "tcdsl.tensors" /* of the capsules */
#define TC_RUNTIME_NAME "tcdsl.runtime"

/* A block of memory, ours with its data behind this header, or lent by somebody who owns it. */
typedef struct Storage {
  PyObject ob_base;
  size_t bytes; /* of data; of ours, rounded up to the class */
  char *data;
  tc_i64 version; /* how often tensors over it were written */
  void *stream;   /* of a device: where the memory may be used again without waiting */
  union {
    PyObject *owner;      /* of memory that is not ours; else NULL */
    struct Storage *next; /* while the block waits in a free list */
  };
  short size_class; /* -1: not ours */
  short device;
  unsigned spare; /* of a block of ours, the bytes that nobody asked for */
} Storage;

/* What a tensor begins with. */
typedef struct {
  PyObject ob_base;
  char *data;
  Storage *storage;
  tc_i64 form;  /* the first word of a key: lender << 48 | rank << 32 | device << 16 | NumPy's number of the type */
  tc_i64 *dims; /* as many extents as rank, then as many strides in elements: the words that follow in a key */
  tc_i64 count; /* of elements */
  tc_u32 flags;
} TensorHead;

enum { TENSOR_TRACKED = 1, TENSOR_READ_ONLY = 2, TENSOR_DENSE = 4 }; /* flags; dense: in C order without gaps */

static inline int rank_of(const TensorHead *t) { return (int)(t->form >> 32 & 0xffff); }
static inline int device_of(const TensorHead *t) { return (int)(t->form >> 16 & 0xffff); }
static inline int number_of_type(const TensorHead *t) { return (int)(t->form & 0xffff); }

/* What the library of tensors gives. Both are called with the GIL. */
typedef struct {
  int abi;
  PyTypeObject *type;
  /* A fresh tensor in memory of ours, in C order where strides (in bytes) are NULL; NULL with an error set. */
  PyObject *(*fresh)(int type_num, int item_bytes, int nd, const Py_ssize_t *dims, const Py_ssize_t *strides,
                     char **data);
  int (*tracks)(void); /* whether tensors that are tracked are not for kernels now */
} tc_tensors;

/* What the launcher gives. Objects are borrowed, results new; NULL is an error, but for what `call` says. */
typedef struct {
  int abi, lender;
  Storage *(*storage_new)(size_t bytes);
  Storage *(*storage_lent)(PyObject *owner, char *data, size_t bytes, int device);
  /* Run a launcher's call with operands as many as it has, tracked or not; out: NULL for fresh outputs. NULL without
   * an error: the form is unknown, nothing has run. entry: NULL, or where a reference to the entry goes. */
  PyObject *(*call)(PyObject *launcher, PyObject *const *in, PyObject *const *out, PyObject **entry);
  /* Run an entry; NULL without an error as run_entry says. */
  PyObject *(*run)(PyObject *launcher, PyObject *entry, PyObject *const *in, PyObject *const *out);
  PyObject **(*note)(PyObject *entry);                       /* what the library keeps with an entry, or NULL */
  PyObject *(*number)(const TensorHead *t);                  /* the only element as a bool, int or float */
  PyObject *(*array)(TensorHead *t);                         /* an ndarray over the same memory */
  int (*item_bytes)(int type_num);
  /* An ndarray of plain elements in C order: its memory, extents, number of the type and whether it may be written.
   * -1 for anything else, without an error. */
  int (*see_array)(PyObject *object, char **data, const Py_ssize_t **dims, int *type_num, int *is_writeable);
} tc_runtime;
#endif
