/* Arrays of other libraries, read through the C functions that their type hands out
 * (`__dlpack_c_exchange_api__`), without a line of Python.
 *
 * References: DLPack 1.3, dlpack.h: DLManagedTensorVersioned, DLPackExchangeAPI.
 */
#ifndef TC_EXCHANGE_H
#define TC_EXCHANGE_H
#include "bridge.h"
#include "ndarray.h"
#include "tc_abi.h"
#include "tensor.h"

typedef struct Managed {
  tc_u32 major, minor;
  void *context;
  void (*deleter)(struct Managed *);
  tc_u64 flags;
  DLTensor tensor;
} Managed;
typedef struct {
  tc_u32 major, minor;
  void *previous;
  void *allocate;
  int (*managed_of)(void *object, Managed **);
  int (*object_of)(Managed *, void **object); /* steals the tensor */
  int (*view_of)(void *object, DLTensor *);   /* may be NULL; valid until control returns */
  void *current_stream;
} ExchangeApi;

enum { DL_READ_ONLY = 1, EXCHANGE_MAJOR = 1, MAX_LENDERS = 32 };

/* A type whose arrays calls read in place. */
typedef struct {
  PyTypeObject *type;
  const ExchangeApi *api;
  PyObject *plain;   /* tuple of callables: an object for which one is true is for slow */
  PyObject *tracked; /* None, or the name of an attribute: one for which it is true is for slow ... */
  PyObject *tracks;  /* ... while this callable gives true, or always where it is None */
  PyObject *unusual; /* tuple of callables: while one gives true, all calls are for slow */
  PyObject *written; /* None, or a callable: told of an array that was written, in a tuple of its own */
  PyObject *model;   /* None, or a callable of dtype and shape: an array like fresh outputs, None for our memory ... */
  PyObject *make;    /* ... and the callable that makes an output like it */
  int writable;      /* whether every array may be written, so that none is asked */
  const tc_bridge *bridge; /* NULL, or what answers in place of functions and rules; its library is never unloaded */
} Lender;

static Lender lenders[MAX_LENDERS];
static int n_lenders;
static int tensor_lender; /* the number of our own tensors' place among them, or 0 */
static const tc_tensors *tensors;
static Py_ssize_t bridged; /* calls that asked a bridge */

/* An array as the launcher sees it; dims and strides are valid until Python code runs. */
typedef struct {
  int lender, nd, type_num, item_bytes;
  char *data;
  Py_ssize_t dims[MAX_DIMS], strides[MAX_DIMS]; /* strides in bytes */
} View;

static inline int is_tensor(PyObject *o) { return tensors && Py_TYPE(o) == tensors->type; }

/* The number of the lender of this object, from 1; 0 if its type is none. Subclasses of our own tensors are tensors. */
static inline int lender_of(PyObject *o) {
  for (int i = 0; i < n_lenders; i++)
    if (lenders[i].type == Py_TYPE(o)) return i + 1;
  void *type = Py_TYPE(o);
  if (!tensors || type == PyFloat_Type || type == PyLong_Type || type == PyBool_Type) return 0;
  return PyType_IsSubtype(type, tensors->type) ? tensor_lender : 0;
}

static int number_of(DLDataType t) {
  static const signed char of_size[3][9] = {
      {-1, 1, 3, -1, 5, -1, -1, -1, sizeof(long) == 8 ? 7 : 9},
      {-1, 2, 4, -1, 6, -1, -1, -1, sizeof(long) == 8 ? 8 : 10},
      {-1, -1, NUM_HALF, -1, NUM_FLOAT, -1, -1, -1, NUM_DOUBLE}};
  if (t.lanes != 1 || t.bits % 8 || t.bits > 64) return -1;
  if (t.code == DL_BFLOAT) return t.bits == 16 ? numpy.bfloat16 : -1;
  if (t.code == DL_BOOL) return t.bits == 8 ? NUM_BOOL : -1;
  return t.code <= DL_FLOAT ? of_size[t.code][t.bits / 8] : -1;
}

static int is_true(PyObject *answer) {
  int yes = answer ? PyObject_IsTrue(answer) : -1;
  Py_DecRef(answer);
  return yes;
}

/* Whether one of these callables gives true, of an object if there is one; so does one that fails, with an error set. */
static int is_any(PyObject *callables, PyObject *o) {
  for (Py_ssize_t i = 0, n = PyTuple_Size(callables); i < n; i++)
    if (is_true(PyObject_Vectorcall(PyTuple_GetItem(callables, i), o ? &o : NULL, o ? 1 : 0, NULL))) return 1;
  return 0;
}

/* Take over where an array lies; 0 if it is none that kernels read. */
static inline int located(int lender, const DLTensor *t, View *v) {
  v->lender = lender;
  v->nd = t->ndim;
  v->type_num = number_of(t->dtype);
  v->item_bytes = t->dtype.bits / 8;
  v->data = (char *)t->data + t->byte_offset;
  if (t->device_type != DL_CPU || t->ndim < 0 || t->ndim > MAX_DIMS || v->type_num < 0) return 0;
  if ((size_t)v->data % (size_t)v->item_bytes) return 0;
  Py_ssize_t dense = v->item_bytes;
  int is_empty = 0;
  for (int d = t->ndim - 1; d >= 0; d--) {
    v->dims[d] = t->shape[d];
    v->strides[d] = dense;
    if (t->shape[d] < 0) return 0;
    is_empty |= !t->shape[d];
    if (t->strides ? __builtin_mul_overflow(t->strides[d], v->item_bytes, &v->strides[d])
                  : __builtin_mul_overflow(dense, t->shape[d] ? t->shape[d] : 1, &dense))
      return 0;
  }
  return v->data || is_empty;
}

/* See the memory of a tensor of ours; 0 if it lies on a device. */
static int see_tensor(const TensorHead *t, View *v) {
  v->lender = tensor_lender;
  v->nd = rank_of(t);
  v->type_num = number_of_type(t);
  v->item_bytes = item_bytes_of(v->type_num);
  v->data = t->data;
  if (device_of(t) || (size_t)t->data % (size_t)v->item_bytes) return 0;
  for (int d = 0; d < v->nd; d++) {
    v->dims[d] = (Py_ssize_t)t->dims[d];
    v->strides[d] = (Py_ssize_t)t->dims[v->nd + d] * v->item_bytes;
  }
  return 1;
}

/* See the memory of an array of a lender; 0 if it is none that kernels read. */
static int memory_of(int lender, PyObject *o, View *v) {
  const Lender *l = &lenders[lender - 1];
  DLTensor t;
  if (lender == tensor_lender) return see_tensor((TensorHead *)o, v);
  if (l->bridge) return l->bridge->view_of(o, 0, &t) == TC_PLAIN && located(lender, &t, v);
  if (l->api->view_of(o, &t)) {
    PyErr_Clear();
    return 0;
  }
  return located(lender, &t, v);
}

/* Whether an array of a lender may be written: what it hands out for good says so. */
static int is_writable(int lender, PyObject *o) {
  Managed *m = NULL;
  if (lender == tensor_lender) return !(((TensorHead *)o)->flags & TENSOR_READ_ONLY);
  if (lenders[lender - 1].writable) return 1;
  if (lenders[lender - 1].api->managed_of(o, &m) || !m) {
    PyErr_Clear();
    return 0;
  }
  int yes = m->major == EXCHANGE_MAJOR && !(m->flags & DL_READ_ONLY);
  if (m->deleter) m->deleter(m);
  return yes;
}

/* What a call asks of its lenders once. */
typedef struct {
  int lender; /* whose answers these are, 0: nobody's */
  int is_usual, tracks;
  int is_tracked; /* whether an array was for slow because it is tracked */
  int reads_tracked; /* whether tensors of ours are read though they are tracked: their library records the call */
} Mood;

/* Whether a tensor of ours may be read in this call; else it is tracked, which the mood then says, or not the host's. */
static inline int may_read(const TensorHead *t, Mood *mood) {
  if (t->form & 0xffff0000) return 0;
  if (!(t->flags & TENSOR_TRACKED) || mood->reads_tracked || !tensors->tracks()) return 1;
  mood->lender = tensor_lender;
  mood->is_tracked = 1;
  return 0;
}

/* Whether two lenders ask the same. */
static inline int same_mood(int a, int b) {
  return a && (a == b || (lenders[a - 1].unusual == lenders[b - 1].unusual &&
                          lenders[a - 1].tracks == lenders[b - 1].tracks));
}

/* Ask a lender; not 0 with an error set: a rule may run a signal's handler, whose exception is the caller's. */
static int ask(int lender, Mood *to) {
  const Lender *l = &lenders[lender - 1];
  to->lender = lender;
  if (l->bridge) {
    int moment = l->bridge->moment();
    to->is_usual = !(moment & TC_UNUSUAL);
    to->tracks = moment & TC_TRACKS;
    bridged++;
    return 0;
  }
  to->is_usual = !is_any(l->unusual, NULL);
  to->tracks = to->is_usual && l->tracked != Py_None &&
               (l->tracks == Py_None || is_true(PyObject_Vectorcall(l->tracks, NULL, 0, NULL)));
  return (to->tracks || !to->is_usual) && PyErr_Occurred() ? -1 : 0;
}

/* See the memory of an array of a lender, as it is asked for a call; 0 if it is for slow, which says what more
 * there is to it, or, with an error set, if a rule failed. */
static int view_of(int lender, PyObject *o, Mood *mood, View *v) {
  const Lender *l = &lenders[lender - 1];
  if (lender == tensor_lender) return may_read((TensorHead *)o, mood) && see_tensor((TensorHead *)o, v);
  if (!same_mood(mood->lender, lender) && ask(lender, mood)) return 0;
  if (!mood->is_usual) return 0;
  if (l->bridge) {
    DLTensor t;
    int found = l->bridge->view_of(o, mood->tracks, &t);
    mood->is_tracked |= found == TC_IS_TRACKED;
    return found == TC_PLAIN && located(lender, &t, v);
  }
  if (mood->tracks && is_true(PyObject_GetAttr(o, l->tracked))) {
    mood->is_tracked = 1;
    return 0;
  }
  return !is_any(l->plain, o) && memory_of(lender, o, v);
}

static int tell_written(int lender, PyObject *o) {
  PyObject *told = lenders[lender - 1].written;
  if (lender == tensor_lender) {
    ((TensorHead *)o)->storage->version++;
    return 0;
  }
  if (lenders[lender - 1].bridge) return lenders[lender - 1].bridge->written(o);
  if (told == Py_None) return 0;
  PyObject *one = PyTuple_New(1);
  if (!one) return -1;
  PyTuple_SetItem(one, 0, Py_NewRef(o));
  PyObject *done = PyObject_Vectorcall(told, &one, 1, NULL);
  Py_DecRef(one);
  Py_DecRef(done);
  return done ? 0 : -1;
}

static PyObject *m_lend(PyObject *m, PyObject *args) {
  PyObject *type, *capsule, *plain, *tracked, *tracks, *unusual, *written, *model = Py_None, *make = Py_None;
  int writable = 0;
  (void)m;
  if (!PyArg_ParseTuple(args, "OOOOOOO|OOi", &type, &capsule, &plain, &tracked, &tracks, &unusual, &written, &model,
                        &make, &writable))
    return NULL;
  if (!is_type(type) || tuple_length(plain) < 0 || tuple_length(unusual) < 0) {
    PyErr_SetString(PyExc_TypeError, "lend takes a type, a capsule, and rules: plain and unusual are tuples");
    return NULL;
  }
  const ExchangeApi *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (!api) return NULL;
  while (api && api->major != EXCHANGE_MAJOR) api = api->previous;
  int known = 0;
  for (int i = 0; i < n_lenders; i++) known |= lenders[i].type == (PyTypeObject *)type;
  if (known || n_lenders == MAX_LENDERS || !api || !api->view_of || !api->managed_of || !api->object_of)
    return PyLong_FromLongLong(known);
  lenders[n_lenders++] = (Lender){(PyTypeObject *)Py_NewRef(type), api, Py_NewRef(plain), Py_NewRef(tracked),
                                  Py_NewRef(tracks), Py_NewRef(unusual), Py_NewRef(written), Py_NewRef(model),
                                  Py_NewRef(make), writable, NULL};
  return PyLong_FromLongLong(1);
}

/* A capsule, or None for none. */
static PyObject *m_bridge(PyObject *m, PyObject *args) {
  PyObject *type, *capsule;
  (void)m;
  if (!PyArg_ParseTuple(args, "OO", &type, &capsule)) return NULL;
  const tc_bridge *bridge = capsule == Py_None ? NULL : PyCapsule_GetPointer(capsule, TC_BRIDGE_NAME);
  if (!bridge && capsule != Py_None) return NULL;
  int done = 0;
  for (int i = 0; i < n_lenders && (!bridge || bridge->abi == TC_BRIDGE_ABI); i++)
    if (lenders[i].type == (PyTypeObject *)type) {
      lenders[i].bridge = bridge;
      done = 1;
    }
  return PyLong_FromLongLong(done);
}
#endif
