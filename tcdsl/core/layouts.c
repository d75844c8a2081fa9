/* Layouts made of layouts: what plain arguments make of the extents and strides of a tensor. */

typedef enum { OF_ALL, OF_SLICE, OF_INDEX, OF_NONE } Last;

typedef struct {
  int nd;
  Last last; /* of a subscript: what its last part is that leaves a dimension not as it is */
  tc_i64 offset; /* in elements, from the first of the source */
  tc_i64 shape[MOST_DIMS], stride[MOST_DIMS];
} Layout;

/* Find the layout that plain arguments ask for; 0: they are not plain, or ask for none, which Python's function says. */
typedef int (*Rule)(const Tensor *, PyObject *const *args, Py_ssize_t n, Layout *to);

/* ---- plain arguments */

static int plain(PyObject *o, tc_i64 *to) {
  if (Py_TYPE(o) != (PyTypeObject *)(void *)PyLong_Type) return 0;
  *to = PyLong_AsLongLong(o);
  if (*to != -1 || !PyErr_Occurred()) return 1;
  PyErr_Clear();
  return 0;
}

/* A number from 0 below n, where a negative one counts from the end. */
static int plain_below(PyObject *o, tc_i64 n, tc_i64 *to) {
  if (!plain(o, to)) return 0;
  if (*to < 0) *to += n;
  return *to >= 0 && *to < n;
}

/* Numbers given one by one, or as one tuple: how many, or -1. */
static int plain_all(PyObject *const *args, Py_ssize_t n, tc_i64 *to) {
  PyObject *tuple = n == 1 && is_tuple_type((PyObject *)Py_TYPE(args[0])) ? args[0] : NULL;
  if (tuple) n = PyTuple_Size(tuple);
  if (n > MOST_DIMS) return -1;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!plain(tuple ? PyTuple_GetItem(tuple, i) : args[i], to + i)) return -1;
  return (int)n;
}

static void whole(const Tensor *t, Layout *to) {
  to->nd = rank_of(&t->head);
  to->offset = 0;
  for (int d = 0; d < to->nd; d++) {
    to->shape[d] = t->head.dims[d];
    to->stride[d] = strides_of(t)[d];
  }
}

static void drop(Layout *l, int d) {
  for (l->nd--; d < l->nd; d++) {
    l->shape[d] = l->shape[d + 1];
    l->stride[d] = l->stride[d + 1];
  }
}

/* ---- rules */

/* (dim, dim); without arguments of a matrix, or of less, which stays as it is */
static int swapped(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 a = 0, b = 1, room = rank_of(&t->head) ? rank_of(&t->head) : 1;
  whole(t, to);
  if (!n) {
    if (to->nd < 2) return 1;
    if (to->nd > 2) return 0;
  } else if (n != 2 || !plain_below(args[0], room, &a) || !plain_below(args[1], room, &b))
    return 0;
  if (!to->nd) return 1;
  to->shape[a] = t->head.dims[b];
  to->shape[b] = t->head.dims[a];
  to->stride[a] = strides_of(t)[b];
  to->stride[b] = strides_of(t)[a];
  return 1;
}

/* (dim, ...): all of them in their new order */
static int reordered(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 order[MOST_DIMS];
  tc_u64 seen = 0;
  to->nd = rank_of(&t->head);
  to->offset = 0;
  if (plain_all(args, n, order) != to->nd) return 0;
  for (int d = 0; d < to->nd; d++) {
    tc_i64 from = order[d] < 0 ? order[d] + to->nd : order[d];
    if (from < 0 || from >= to->nd || seen >> from & 1) return 0;
    seen |= (tc_u64)1 << from;
    to->shape[d] = t->head.dims[from];
    to->stride[d] = strides_of(t)[from];
  }
  return 1;
}

/* Strides for a shape of as many elements. Dimensions that lie one behind the other in memory are one block, and each
 * dimension of the new shape has to lie in one block. */
static int laid_out(const Tensor *t, Layout *to) {
  int nd = rank_of(&t->head), at = nd;
  const tc_i64 *shape = t->head.dims, *stride = strides_of(t);
  tc_i64 left = 1, step = 1;
  if (t->head.flags & TENSOR_DENSE) at = 0, left = t->head.count;
  for (int d = to->nd; d-- > 0;) {
    if (to->shape[d] == 1 || !t->head.count) {
      to->stride[d] = step;
      if (to->shape[d] > 1) step *= to->shape[d];
      continue;
    }
    if (left == 1) {
      while (at && shape[at - 1] == 1) at--;
      if (!at) return 0;
      left = shape[--at];
      step = stride[at];
      for (; at && (shape[at - 1] == 1 || stride[at - 1] == step * left); at--) left *= shape[at - 1];
    }
    if (left % to->shape[d]) return 0;
    to->stride[d] = step;
    step *= to->shape[d];
    left /= to->shape[d];
  }
  while (at && shape[at - 1] == 1) at--;
  return !t->head.count || (left == 1 && !at);
}

/* (extent, ...), of which one may be -1: what is left */
static int reshaped(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 known = 1;
  int open = -1;
  to->offset = 0;
  if ((to->nd = plain_all(args, n, to->shape)) < 0) return 0;
  for (int d = 0; d < to->nd; d++) {
    if (to->shape[d] < 0) {
      if (to->shape[d] != -1 || open >= 0) return 0;
      open = d;
    } else if (__builtin_mul_overflow(known, to->shape[d], &known))
      return 0;
  }
  if (open >= 0) {
    if (!known || t->head.count % known) return 0;
    to->shape[open] = t->head.count / known;
  } else if (known != t->head.count)
    return 0;
  return laid_out(t, to);
}

/* (first, last): these dimensions and those between them as one; all without arguments */
static int merged(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  int nd = rank_of(&t->head), room = nd ? nd : 1;
  tc_i64 a = 0, b = room - 1, count = 1;
  if (n > 2 || (n && !plain_below(args[0], room, &a)) || (n == 2 && !plain_below(args[1], room, &b)) || a > b) return 0;
  whole(t, to);
  for (tc_i64 d = a; d <= b && d < nd; d++) count *= t->head.dims[d];
  to->nd = room - (int)(b - a);
  to->shape[a] = count;
  for (int d = (int)a + 1; d < to->nd; d++) to->shape[d] = t->head.dims[d + b - a];
  return laid_out(t, to);
}

/* (extent, ...), in which dimensions of one element are repeated, as are new first ones; -1: as it is */
static int widened(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  to->offset = 0;
  if ((to->nd = plain_all(args, n, to->shape)) < 0) return 0;
  int fresh = to->nd - rank_of(&t->head);
  if (fresh < 0) return 0;
  for (int d = 0; d < to->nd; d++) {
    tc_i64 size = d < fresh ? 1 : t->head.dims[d - fresh];
    if (to->shape[d] == -1 && d >= fresh) to->shape[d] = size;
    if (to->shape[d] < 0 || (to->shape[d] != size && size != 1)) return 0;
    to->stride[d] = d >= fresh && to->shape[d] == size ? strides_of(t)[d - fresh] : 0;
  }
  return 1;
}

/* (dim): one of one element more, there */
static int opened(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 at;
  whole(t, to);
  if (n != 1 || to->nd == MOST_DIMS || !plain_below(args[0], to->nd + 1, &at)) return 0;
  tc_i64 step = at < to->nd ? to->shape[at] * to->stride[at] : 1;
  for (int d = to->nd++; d > at; d--) {
    to->shape[d] = to->shape[d - 1];
    to->stride[d] = to->stride[d - 1];
  }
  to->shape[at] = 1;
  to->stride[at] = step;
  return 1;
}

/* (dim): without it, where it has one element; without all such where none is named */
static int closed(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 at = -1;
  whole(t, to);
  if (n > 1 || (n && !plain_below(args[0], to->nd ? to->nd : 1, &at))) return 0;
  for (int d = to->nd; d-- > 0;)
    if (to->shape[d] == 1 && (!n || d == at)) drop(to, d);
  return 1;
}

/* (dim, index): the part there, without that dimension */
static int selected(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 d, at;
  whole(t, to);
  if (n != 2 || !plain_below(args[0], to->nd, &d) || !plain_below(args[1], to->shape[d], &at)) return 0;
  to->offset = at * to->stride[d];
  drop(to, (int)d);
  return 1;
}

/* (dim, start, length) */
static int narrowed(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 d, start, length;
  whole(t, to);
  if (n != 3 || !plain_below(args[0], to->nd, &d) || !plain(args[1], &start) || !plain(args[2], &length)) return 0;
  if (start < 0) start += to->shape[d];
  if (start < 0 || length < 0 || length > to->shape[d] - start) return 0;
  to->shape[d] = length;
  to->offset = length ? start * to->stride[d] : 0;
  return 1;
}

/* (offset, dim, dim), of which 0, 0 and 1 may be left out: what lies there at places that differ by the offset, in a
 * last dimension */
static int slanted(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 offset = 0, a = 0, b = 1;
  whole(t, to);
  if (to->nd < 2 || n > 3 || (n > 0 && !plain(args[0], &offset)) || (n > 1 && !plain_below(args[1], to->nd, &a)) ||
      (n > 2 && !plain_below(args[2], to->nd, &b)) || a == b)
    return 0;
  tc_i64 rows = to->shape[a], columns = to->shape[b], below = offset < 0 ? -offset : 0, beside = offset > 0 ? offset : 0;
  tc_i64 count = rows - below < columns - beside ? rows - below : columns - beside;
  tc_i64 step = to->stride[a] + to->stride[b];
  if (count > 0) to->offset = below * to->stride[a] + beside * to->stride[b];
  drop(to, (int)(a > b ? a : b));
  drop(to, (int)(a < b ? a : b));
  to->shape[to->nd] = count > 0 ? count : 0;
  to->stride[to->nd++] = step;
  return 1;
}

/* (dim, size, step): all windows of a dimension, their elements in a last dimension */
static int windowed(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  tc_i64 d, size, step;
  whole(t, to);
  if (n != 3 || to->nd == MOST_DIMS || !plain_below(args[0], to->nd, &d) || !plain(args[1], &size) ||
      !plain(args[2], &step) || size < 0 || size > to->shape[d] || step < 1)
    return 0;
  to->shape[to->nd] = size;
  to->stride[to->nd++] = to->stride[d];
  to->shape[d] = (to->shape[d] - size) / step + 1;
  if (__builtin_mul_overflow(to->stride[d], step, &to->stride[d])) return 0;
  return 1;
}

/* (key): numbers, slices, None and `...`, alone or as a tuple */
static int subscripted(const Tensor *t, PyObject *const *args, Py_ssize_t n, Layout *to) {
  if (n != 1) return 0;
  int nd = rank_of(&t->head), dim = 0, is_many = is_tuple_type((PyObject *)Py_TYPE(args[0])), dots = -1, named = 0;
  Py_ssize_t count = is_many ? PyTuple_Size(args[0]) : 1;
  if (count > MOST_DIMS) return 0;
  for (int i = 0; i < count; i++) {
    PyObject *o = is_many ? PyTuple_GetItem(args[0], i) : args[0];
    if (o == Py_Ellipsis) {
      if (dots >= 0) return 0;
      dots = i;
    } else
      named += o != Py_None;
  }
  if (named > nd || count + nd > MOST_DIMS) return 0;
  to->nd = 0;
  to->offset = 0;
  to->last = OF_ALL;
  for (int i = 0; i <= count; i++) {
    PyObject *o = i == count ? NULL : is_many ? PyTuple_GetItem(args[0], i) : args[0];
    if (o == Py_Ellipsis || (!o && dots < 0)) {
      for (int k = nd - named; k > 0; k--, dim++) {
        to->shape[to->nd] = t->head.dims[dim];
        to->stride[to->nd++] = strides_of(t)[dim];
      }
      continue;
    }
    if (!o) break;
    if (o == Py_None) {
      to->shape[to->nd] = 1;
      to->stride[to->nd++] = 0;
      to->last = OF_NONE;
      continue;
    }
    tc_i64 extent = t->head.dims[dim], stride = strides_of(t)[dim], at;
    dim++;
    if (Py_TYPE(o) == (PyTypeObject *)(void *)PyLong_Type) {
      if (!plain_below(o, extent, &at)) return 0;
      to->offset += at * stride;
      to->last = OF_INDEX;
      continue;
    }
    Py_ssize_t start, stop, step;
    if (Py_TYPE(o) != (PyTypeObject *)(void *)PySlice_Type) return 0;
    if (PySlice_Unpack(o, &start, &stop, &step)) {
      PyErr_Clear();
      return 0;
    }
    if (step < 0) return 0;
    tc_i64 length = PySlice_AdjustIndices((Py_ssize_t)extent, &start, &stop, step);
    if (length) to->offset += start * stride;
    if (!is_many || length != extent || step != 1) to->last = OF_SLICE;
    to->shape[to->nd] = length;
    to->stride[to->nd++] = stride * step;
  }
  return 1;
}

static const struct {
  const char *name;
  Rule rule;
} rules[] = {{"swapped", swapped},     {"reordered", reordered}, {"reshaped", reshaped}, {"merged", merged},
             {"widened", widened},     {"opened", opened},       {"closed", closed},     {"selected", selected},
             {"narrowed", narrowed},   {"subscripted", subscripted}, {"slanted", slanted},  {"windowed", windowed}};
