/* Operand: the exact form of one array or number of an entry, as Python tells it, and whether arrays have it. */

enum { MAX_OPERANDS = 512 };
/* How a parameter is passed: by address, or, of rank 0, by value as this kind. */
enum { BY_ADDRESS, AS_BOOL, AS_SIGNED, AS_UNSIGNED, AS_BFLOAT16, AS_HALF, AS_FLOAT, AS_DOUBLE };

typedef struct {
  int pass, nd, type_num, item_bytes, c_order;
  Py_ssize_t *dims, *strides; /* strides in bytes */
  Py_ssize_t low, high; /* bytes from element 0,..,0 to the first and past the last byte; equal: empty */
  Descr *descr;
} Operand;

/* NumPy's letter for the kind of a plain type. */
static char kind_of(int type_num) {
  if (type_num == numpy.bfloat16) return 'V';
  if (type_num == NUM_BOOL) return 'b';
  return type_num >= NUM_FLOAT ? 'f' : type_num % 2 ? 'i' : 'u';
}

static DLDataType type_of(const Descr *d, int item_bytes) {
  int code = d->type_num == numpy.bfloat16 ? DL_BFLOAT
             : d->kind == 'b'              ? DL_BOOL
             : d->kind == 'i'              ? DL_INT
             : d->kind == 'u'              ? DL_UINT
                                           : DL_FLOAT;
  return (DLDataType){(tc_u8)code, (tc_u8)(8 * item_bytes), 1};
}

static int pass_of(const Descr *d) {
  if (d->type_num == numpy.bfloat16) return AS_BFLOAT16;
  switch (d->kind) {
    case 'b':
      return AS_BOOL;
    case 'i':
      return AS_SIGNED;
    case 'u':
      return AS_UNSIGNED;
    default:
      return d->type_num == NUM_HALF ? AS_HALF : d->type_num == NUM_FLOAT ? AS_FLOAT : AS_DOUBLE;
  }
}

/* Read a tuple of n integers. */
static int read_integers(PyObject *tuple, Py_ssize_t n, Py_ssize_t *to) {
  if (tuple_length(tuple) != n) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "shape and strides differ in length");
    return -1;
  }
  for (Py_ssize_t d = 0; d < n; d++) {
    to[d] = (Py_ssize_t)PyLong_AsLongLong(PyTuple_GetItem(tuple, d));
    if (to[d] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

/* Find the bytes an operand spans; -1 if they cannot be counted. */
static int measure(Operand *o) {
  Py_ssize_t low = 0, high = o->item_bytes, span;
  for (int d = 0; d < o->nd; d++) {
    if (o->dims[d] == 0) {
      o->low = o->high = 0;
      return 0;
    }
    if (__builtin_mul_overflow(o->dims[d] - 1, o->strides[d], &span)) return -1;
    if (__builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high)) return -1;
  }
  o->low = low;
  o->high = high;
  return __builtin_sub_overflow(high, low, &span) ? -1 : 0;
}

/* spec: a dtype (a rank-0 parameter by value), or (dtype, shape, strides in elements or None: C order). From dims +
 * 2 * *used on there is room for its dims and strides. elements: where the strides that phases see go, or NULL: they
 * are others. */
static int read_operand(Operand *o, PyObject *spec, int by_value, Py_ssize_t *dims, tc_i64 *elements,
                        Py_ssize_t *used) {
  PyObject *descr = spec, *shape = NULL, *strides = Py_None;
  if (!by_value && !PyArg_ParseTuple(spec, "OOO", &descr, &shape, &strides)) return -1;
  if (!is_descr(descr) || !is_plain((Descr *)descr)) {
    PyErr_SetString(PyExc_TypeError, "an operand's type is a plain NumPy dtype in native byte order");
    return -1;
  }
  o->descr = (Descr *)Py_NewRef(descr);
  o->type_num = o->descr->type_num;
  o->item_bytes = item_bytes_of(o->type_num);
  if (by_value) {
    o->pass = pass_of(o->descr);
    return 0;
  }
  Py_ssize_t nd = tuple_length(shape);
  if (nd < 0 || nd > MAX_DIMS) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "an array has at most 64 dimensions");
    return -1;
  }
  o->nd = (int)nd;
  o->dims = dims + 2 * *used;
  o->strides = o->dims + nd;
  if (read_integers(shape, nd, o->dims)) return -1;
  tc_i64 step = 1;
  int too_large = 0;
  if (elements) elements += *used;
  *used += nd;
  o->c_order = strides == Py_None;
  if (!o->c_order && read_integers(strides, nd, o->strides)) return -1;
  for (Py_ssize_t d = nd - 1; d >= 0; d--) {
    if (o->dims[d] < 0) {
      PyErr_SetString(PyExc_ValueError, "a negative extent");
      return -1;
    }
    if (o->c_order) {
      o->strides[d] = (Py_ssize_t)step;
      too_large |= __builtin_mul_overflow(step, o->dims[d] ? o->dims[d] : 1, &step);
    }
    if (elements) elements[d] = o->strides[d];
    too_large |= __builtin_mul_overflow(o->strides[d], o->item_bytes, &o->strides[d]);
  }
  if (too_large || measure(o)) {
    PyErr_SetString(PyExc_ValueError, "an array is too large to be addressed");
    return -1;
  }
  return 0;
}

static int same_view(const Operand *a, const Operand *b) {
  if (a->nd != b->nd || a->item_bytes != b->item_bytes || a->pass != b->pass) return 0;
  for (int d = 0; d < a->nd; d++)
    if (a->dims[d] != b->dims[d] || (a->dims[d] > 1 && a->strides[d] != b->strides[d])) return 0;
  return 1;
}

/* Whether an array has the form the entry was made for; the fast path knows by its key. */
static int fits(const Operand *o, PyObject *x) {
  if (Py_TYPE(x) != numpy.array_type) return 0;
  const Array *a = (Array *)x;
  if (!(a->flags & ARRAY_ALIGNED) || !is_plain(a->descr) || a->nd != o->nd ||
      a->descr->kind != o->descr->kind || item_bytes_of(a->descr->type_num) != o->item_bytes)
    return 0;
  for (int d = 0; d < a->nd; d++)
    if (a->dims[d] != o->dims[d] || (a->dims[d] > 1 && o->low != o->high && a->strides[d] != o->strides[d]))
      return 0;
  return 1;
}

static int fits_view(const Operand *o, const View *v) {
  if (v->nd != o->nd || v->item_bytes != o->item_bytes || kind_of(v->type_num) != o->descr->kind) return 0;
  for (int d = 0; d < v->nd; d++)
    if (v->dims[d] != o->dims[d] || (v->dims[d] > 1 && o->low != o->high && v->strides[d] != o->strides[d]))
      return 0;
  return 1;
}
