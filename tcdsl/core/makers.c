/* Tensors made for Python: fresh memory, memory of others, layouts over the memory of tensors. */

static int read_dims(PyObject *tuple, tc_i64 *to, int most) {
  Py_ssize_t n = tuple_length(tuple);
  if (n < 0) return -1;
  if (n > most) {
    PyErr_SetString(PyExc_RuntimeError, "a tensor has at most 64 dimensions");
    return -1;
  }
  for (Py_ssize_t d = 0; d < n; d++) {
    to[d] = PyLong_AsLongLong(PyTuple_GetItem(tuple, d));
    if (to[d] == -1 && PyErr_Occurred()) return -1;
  }
  return (int)n;
}

/* empty(shape, number of the type) */
static PyObject *m_empty(PyObject *m, PyObject *args) {
  PyObject *shape;
  int type_num;
  tc_i64 dims[MOST_DIMS];
  (void)m;
  if (!PyArg_ParseTuple(args, "Oi", &shape, &type_num)) return NULL;
  int nd = read_dims(shape, dims, MOST_DIMS);
  if (nd < 0) return NULL;
  if (type_num < 0 || type_num >= MOST_TYPES) {
    PyErr_SetString(PyExc_ValueError, "no number of a type");
    return NULL;
  }
  Py_ssize_t sizes[MOST_DIMS], count = 1;
  int bytes = rt->item_bytes(type_num), too_large = 0;
  for (int d = 0; d < nd; d++) {
    if (dims[d] < 0)
      return PyErr_Format(PyExc_RuntimeError, "Trying to create tensor with negative dimension %lld: %R", dims[d], shape);
    sizes[d] = (Py_ssize_t)dims[d];
    too_large |= __builtin_mul_overflow(count, sizes[d] ? sizes[d] : 1, &count);
  }
  too_large |= __builtin_mul_overflow(count, bytes, &count);
  if (too_large) return PyErr_NoMemory();
  char *data;
  return tensor_fresh(type_num, bytes, nd, sizes, NULL, &data);
}

/* lent(owner, address, bytes, shape, strides in elements, number of the type, device, read_only): memory of others. */
static PyObject *m_lent(PyObject *m, PyObject *args) {
  PyObject *owner, *shape, *strides;
  long long address, bytes;
  int type_num, device, read_only;
  tc_i64 dims[2 * MOST_DIMS];
  (void)m;
  if (!PyArg_ParseTuple(args, "OLLOOiii", &owner, &address, &bytes, &shape, &strides, &type_num, &device, &read_only))
    return NULL;
  int nd = read_dims(shape, dims, MOST_DIMS);
  if (nd < 0 || read_dims(strides, dims + nd, nd) != nd) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "shape and strides differ in length");
    return NULL;
  }
  Tensor *t = tensor_alloc(nd);
  if (!t) return NULL;
  memcpy(t->head.dims, dims, 2 * (size_t)nd * sizeof *dims);
  t->head.form = form_of(type_num, nd, device);
  t->head.data = (char *)(size_t)address;
  t->head.flags = (read_only ? TENSOR_READ_ONLY : 0) | made_here();
  if (measure(t) || !(t->head.storage = rt->storage_lent(owner, t->head.data, (size_t)bytes, device))) {
    Py_DecRef((PyObject *)t);
    return NULL;
  }
  return (PyObject *)t;
}

/* over(array): a tensor over the memory of an ndarray that lies in C order; None for any other object. */
static PyObject *m_over(PyObject *m, PyObject *array) {
  char *data;
  const Py_ssize_t *dims;
  int type_num, is_writeable, nd = rt->see_array(array, &data, &dims, &type_num, &is_writeable);
  (void)m;
  if (nd < 0 || nd > MOST_DIMS || PyList_GetItem(py.dtypes, type_num) == Py_None) return Py_NewRef(Py_None);
  Tensor *t = tensor_alloc(nd);
  if (!t) return NULL;
  tc_i64 step = 1;
  for (int d = nd; d--; step *= dims[d] ? dims[d] : 1) {
    t->head.dims[d] = dims[d];
    t->head.dims[nd + d] = step;
  }
  t->head.form = form_of(type_num, nd, 0);
  t->head.data = data;
  t->head.flags = (is_writeable ? 0 : TENSOR_READ_ONLY) | made_here();
  int failed = measure(t);
  size_t bytes = (size_t)t->head.count * (size_t)rt->item_bytes(type_num);
  if (failed || !(t->head.storage = rt->storage_lent(array, data, bytes, 0))) {
    Py_DecRef((PyObject *)t);
    return NULL;
  }
  return (PyObject *)t;
}

/* view(tensor, shape, strides, offset from the tensor's first element, recipe, vjp, name) */
static PyObject *m_view(PyObject *m, PyObject *args) {
  PyObject *of, *shape, *strides, *recipe, *vjp, *name;
  long long offset;
  Layout l;
  (void)m;
  if (!PyArg_ParseTuple(args, "OOOLOOO", &of, &shape, &strides, &offset, &recipe, &vjp, &name)) return NULL;
  l.offset = offset;
  l.nd = read_dims(shape, l.shape, MOST_DIMS);
  if (l.nd < 0 || read_dims(strides, l.stride, l.nd) != l.nd || !is_tensor(of) || Py_TYPE(recipe) != recipe_type) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "view takes a tensor, its layout and a Recipe");
    return NULL;
  }
  return view_made(of, &l, name, (Recipe *)recipe, vjp == Py_None ? NULL : vjp, &of, 1);
}

/* retyped(tensor, number of a type, shape, strides): from the same place on, elements of another type; not recorded. */
static PyObject *m_retyped(PyObject *m, PyObject *args) {
  PyObject *of, *shape, *strides;
  int type_num;
  tc_i64 dims[2 * MOST_DIMS];
  (void)m;
  if (!PyArg_ParseTuple(args, "OiOO", &of, &type_num, &shape, &strides)) return NULL;
  int nd = read_dims(shape, dims, MOST_DIMS);
  if (nd < 0 || read_dims(strides, dims + nd, nd) != nd || !is_tensor(of) || type_num < 0 || type_num >= MOST_TYPES) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "retyped takes a tensor, a type and a layout");
    return NULL;
  }
  const Tensor *source = (Tensor *)of;
  Tensor *t = tensor_alloc(nd);
  if (!t) return NULL;
  memcpy(t->head.dims, dims, 2 * (size_t)nd * sizeof *dims);
  t->head.form = form_of(type_num, nd, device_of(&source->head));
  t->head.flags = source->head.flags & (TENSOR_READ_ONLY | INFERENCE);
  t->head.storage = (Storage *)Py_NewRef(source->head.storage);
  t->head.data = source->head.data;
  if (!measure(t) && lies_in_storage(t)) return (PyObject *)t;
  Py_DecRef((PyObject *)t);
  return NULL;
}
