/* The Python face of Tensor that needs no kernel: attributes and numbers. */

static PyObject *tuple_of(PyTypeObject *type, const tc_i64 *v, int n) {
  PyObject *r = PyType_GenericAlloc(type, n);
  for (int d = 0; r && d < n; d++) PyTuple_SetItem(r, d, PyLong_FromLongLong(v[d]));
  return r;
}

/* Sizes: a tuple whose parts are of its type; Python makes the type of shapes of it. */
static PyObject *sizes_subscript(PyObject *self, PyObject *at) {
  static PyObject *(*of_tuple)(PyObject *, PyObject *);
  if (!of_tuple)
    of_tuple = (PyObject * (*)(PyObject *, PyObject *)) PyType_GetSlot((PyTypeObject *)(void *)PyTuple_Type, Py_mp_subscript);
  PyObject *found = of_tuple(self, at);
  if (!found || (void *)Py_TYPE(found) != PyTuple_Type) return found;
  PyObject *part = PyObject_Vectorcall((PyObject *)Py_TYPE(self), &found, 1, NULL);
  Py_DecRef(found);
  return part;
}

static PyType_Slot sizes_slots[] = {{Py_mp_subscript, sizes_subscript}, {0, NULL}};
static PyType_Spec sizes_spec = {"tcdsl.core._core.Sizes", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, sizes_slots};

static int dim_given(const Tensor *t, PyObject *o, int *to) {
  int nd = rank_of(&t->head);
  long long d = PyLong_AsLongLong(o), room = nd ? nd : 1;
  if (d == -1 && PyErr_Occurred()) return -1;
  if (d < -room || d >= room) {
    PyErr_Format(PyExc_IndexError, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
                 -room, room - 1, d);
    return -1;
  }
  *to = (int)(d < 0 ? d + room : d);
  return 0;
}

static PyObject *get_shape(Tensor *t, void *unused) {
  (void)unused;
  return tuple_of((PyTypeObject *)py.size_type, t->head.dims, rank_of(&t->head));
}

static PyObject *sizes(Tensor *t, PyObject *const *args, Py_ssize_t n, int which) {
  int nd = rank_of(&t->head), d;
  const tc_i64 *v = t->head.dims + which * nd;
  if (n > 1) {
    PyErr_SetString(PyExc_TypeError, "takes one dimension at most");
    return NULL;
  }
  if (!n || args[0] == Py_None)
    return tuple_of(which ? (PyTypeObject *)(void *)PyTuple_Type : (PyTypeObject *)py.size_type, v, nd);
  if (dim_given(t, args[0], &d)) return NULL;
  if (!nd) {
    PyErr_SetString(PyExc_IndexError, "Dimension specified as 0 but tensor has no dimensions");
    return NULL;
  }
  return PyLong_FromLongLong(v[d]);
}

static PyObject *tensor_size(Tensor *t, PyObject *const *args, Py_ssize_t n) { return sizes(t, args, n, 0); }
static PyObject *tensor_stride(Tensor *t, PyObject *const *args, Py_ssize_t n) { return sizes(t, args, n, 1); }

static PyObject *get_dtype(Tensor *t, void *unused) {
  (void)unused;
  return Py_NewRef(PyList_GetItem(py.dtypes, number_of_type(&t->head)));
}

static PyObject *get_version(Tensor *t, void *unused) {
  (void)unused;
  if (t->head.flags & INFERENCE) {
    PyErr_SetString(PyExc_RuntimeError, "Inference tensors do not track version counter.");
    return NULL;
  }
  return PyLong_FromLongLong(t->head.storage->version);
}

static PyObject *get_ndim(Tensor *t, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(rank_of(&t->head));
}

static PyObject *get_requires_grad(Tensor *t, void *unused) {
  (void)unused;
  int yes = is_tracked(t);
  if (yes < 0 && t->head.flags & VIEW_UNRECORDED) { /* the flag is told of what may not be used, too */
    PyErr_Clear();
    yes = 1;
  }
  return yes < 0 ? NULL : PyBool_FromLong(yes);
}

static int set_requires_grad(Tensor *t, PyObject *value, void *unused) {
  (void)unused;
  int yes = value ? PyObject_IsTrue(value) : -1;
  if (yes < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_AttributeError, "requires_grad cannot be deleted");
    return -1;
  }
  if (is_tracked(t) < 0) return -1;
  if (t->fn) {
    if (yes) return 0;
    PyErr_SetString(PyExc_RuntimeError,
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                    "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    return -1;
  }
  if (yes && !is_float[number_of_type(&t->head)]) {
    PyErr_SetString(PyExc_RuntimeError, "only Tensors of floating point and complex dtype can require gradients");
    return -1;
  }
  if (yes && t->head.flags & INFERENCE && !infers) {
    PyErr_SetString(PyExc_RuntimeError, "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    return -1;
  }
  tc_u32 both = TENSOR_TRACKED | LEAF_REQUIRES;
  t->head.flags = yes ? t->head.flags | both : t->head.flags & ~both;
  return 0;
}

static PyObject *get_is_leaf(Tensor *t, void *unused) {
  (void)unused;
  return is_tracked(t) < 0 ? NULL : PyBool_FromLong(!t->fn);
}

static PyObject *get_grad(Tensor *t, void *unused) {
  (void)unused;
  if (!t->grad && t->fn && !t->dict && /* a retained one says so there */
      PyErr_WarnEx(PyExc_UserWarning,
                   "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't "
                   "be populated during autograd.backward(): call .retain_grad() on it before, or look at the leaf's.", 1))
    return NULL;
  return newref_or_none(t->grad);
}

static int set_grad(Tensor *t, PyObject *value, void *unused) {
  (void)unused;
  PyObject *old = t->grad;
  if (value && value != Py_None) {
    if (!is_tensor(value)) {
      PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %R",
                   Py_TYPE(value));
      return -1;
    }
    const Tensor *g = (Tensor *)value;
    int same = value != (PyObject *)t && g->head.form == t->head.form;
    for (int d = 0; same && d < rank_of(&t->head); d++) same = g->head.dims[d] == t->head.dims[d];
    if (!same) {
      PyObject *got = get_shape((Tensor *)value, NULL), *wanted = get_shape(t, NULL);
      if (got && wanted)
        PyErr_Format(PyExc_RuntimeError,
                     "attempting to assign a gradient of size '%R' and type '%R' to a tensor of size '%R' and type '%R'. "
                     "Please ensure that the gradient and the tensor are alike",
                     got, PyList_GetItem(py.dtypes, number_of_type(&((Tensor *)value)->head)), wanted,
                     PyList_GetItem(py.dtypes, number_of_type(&t->head)));
      Py_DecRef(got);
      Py_DecRef(wanted);
      return -1;
    }
    t->grad = Py_NewRef(value);
    track(t);
  } else
    t->grad = NULL;
  Py_DecRef(old);
  return 0;
}

static PyObject *get_fn(Tensor *t, void *unused) {
  (void)unused;
  if (is_tracked(t) < 0) return NULL;
  return t->fn ? shown(t->fn) : Py_NewRef(Py_None);
}

static PyObject *get_base(Tensor *t, void *unused) {
  (void)unused;
  return newref_or_none(t->base);
}

static PyObject *get_output_nr(Tensor *t, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(t->out_nr);
}

static PyObject *get_storage(Tensor *t, void *unused) {
  (void)unused;
  return Py_NewRef(t->head.storage);
}

static PyObject *get_hooks(Tensor *t, void *unused) {
  (void)unused;
  return newref_or_none(t->hooks);
}

static int set_hooks(Tensor *t, PyObject *value, void *unused) {
  (void)unused;
  PyObject *old = t->hooks;
  t->hooks = value && value != Py_None ? Py_NewRef(value) : NULL;
  if (t->hooks) track(t);
  Py_DecRef(old);
  return 0;
}

static PyObject *get_dict(PyObject *t, void *context) {
  track(t); /* what is in it may hold the tensor */
  return PyObject_GenericGetDict(t, context);
}

static int tensor_setattro(PyObject *t, PyObject *name, PyObject *value) {
  track(t);
  hold(value);
  return PyObject_GenericSetAttr(t, name, value);
}

static PyObject *tensor_is_inference(Tensor *t, PyObject *unused) {
  (void)unused;
  return PyBool_FromLong(t->head.flags & INFERENCE);
}

static PyObject *tensor_numel(Tensor *t, PyObject *unused) {
  (void)unused;
  return PyLong_FromLongLong(t->head.count);
}

static PyObject *tensor_dim(Tensor *t, PyObject *unused) {
  (void)unused;
  return PyLong_FromLongLong(rank_of(&t->head));
}

static PyObject *tensor_element_size(Tensor *t, PyObject *unused) {
  (void)unused;
  return PyLong_FromLongLong(rt->item_bytes(number_of_type(&t->head)));
}

static PyObject *tensor_offset(Tensor *t, PyObject *unused) {
  (void)unused;
  return PyLong_FromLongLong((t->head.data - t->head.storage->data) / rt->item_bytes(number_of_type(&t->head)));
}

static PyObject *tensor_data_ptr(Tensor *t, PyObject *unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong((unsigned long long)(size_t)t->head.data);
}

/* is_contiguous(memory_format=): in C order as a flag says, in another one as Python finds. */
static PyObject *tensor_is_contiguous(Tensor *t, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  Py_ssize_t given = n + (keywords ? PyTuple_Size(keywords) : 0);
  if (!given) return PyBool_FromLong(t->head.flags & TENSOR_DENSE);
  if (given > 1 || !py.is_laid) {
    PyErr_SetString(PyExc_TypeError, "is_contiguous() takes one argument, memory_format");
    return NULL;
  }
  PyObject *both[] = {(PyObject *)t, args[0]};
  return PyObject_Vectorcall(py.is_laid, both, (size_t)n + 1, keywords);
}

static PyObject *tensor_item(Tensor *t, PyObject *unused) {
  (void)unused;
  if (t->head.count != 1)
    return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar", t->head.count);
  if (device_of(&t->head)) {
    PyObject *arg = (PyObject *)t, *copy = py.on_host ? PyObject_Vectorcall(py.on_host, &arg, 1, NULL) : NULL;
    int is_there = copy && is_tensor(copy) && !device_of(&((Tensor *)copy)->head);
    PyObject *number = is_there ? rt->number(&((Tensor *)copy)->head) : NULL;
    Py_DecRef(copy);
    if (!number && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the tensor is not in the host's memory");
    return number;
  }
  return rt->number(&t->head);
}

static int tensor_bool(Tensor *t) {
  if (t->head.count != 1) {
    PyErr_SetString(PyExc_RuntimeError, t->head.count ? "Boolean value of Tensor with more than one value is ambiguous"
                                                      : "Boolean value of Tensor with no values is ambiguous");
    return -1;
  }
  PyObject *v = tensor_item(t, NULL);
  int yes = v ? PyObject_IsTrue(v) : -1;
  Py_DecRef(v);
  return yes;
}

static PyObject *tensor_detach(Tensor *t, PyObject *unused) {
  (void)unused;
  return (PyObject *)alias_of(t);
}

/* The same memory under another count of versions. */
static PyObject *get_data(Tensor *t, void *unused) {
  (void)unused;
  Tensor *d = alias_of(t);
  if (!d) return NULL;
  Storage *s = t->head.storage, *own = rt->storage_lent((PyObject *)s, s->data, s->bytes, s->device);
  if (!own) {
    Py_DecRef((PyObject *)d);
    return NULL;
  }
  d->head.storage = own;
  d->seen = 0;
  Py_DecRef((PyObject *)s);
  return (PyObject *)d;
}

/* Take over memory, layout and type of another tensor; what is recorded of this one stays. */
static int set_data(Tensor *t, PyObject *value, void *unused) {
  (void)unused;
  if (!value || !is_tensor(value)) {
    PyErr_SetString(PyExc_TypeError, "Variable data has to be a tensor");
    return -1;
  }
  const Tensor *of = (Tensor *)value;
  int nd = rank_of(&of->head);
  tc_i64 *dims = t->room;
  if (nd > INLINE_DIMS && !(dims = malloc(2 * (size_t)nd * sizeof(tc_i64)))) {
    PyErr_NoMemory();
    return -1;
  }
  memmove(dims, of->head.dims, 2 * (size_t)nd * sizeof *dims);
  if (t->head.dims != t->room && t->head.dims != dims) free(t->head.dims);
  Storage *old = t->head.storage;
  tc_u32 taken = TENSOR_READ_ONLY | TENSOR_DENSE;
  t->head.dims = dims;
  t->head.storage = (Storage *)Py_NewRef(of->head.storage);
  t->head.data = of->head.data;
  t->head.form = of->head.form;
  t->head.count = of->head.count;
  t->head.flags = (t->head.flags & ~taken) | (of->head.flags & taken);
  t->seen = t->head.storage->version;
  Py_DecRef((PyObject *)old);
  return 0;
}

static PyObject *tensor_array(Tensor *t, PyObject *unused) {
  PyObject *arg = (PyObject *)t;
  (void)unused;
  if (device_of(&t->head) && py.place) return PyObject_Vectorcall(py.place, &arg, 1, NULL);
  return rt->array(&t->head);
}

/* 0: the host's memory; n + 1: that of GPU n. */
static PyObject *get_device(Tensor *t, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(device_of(&t->head));
}

/* The same as Python shows it. */
static PyObject *get_device_shown(Tensor *t, void *unused) {
  (void)unused;
  if (!device_of(&t->head) || !py.gpu) return newref_or_none(py.host);
  return PyObject_CallFunction(py.gpu, "i", device_of(&t->head) - 1);
}

static PyObject *get_is_cpu(Tensor *t, void *unused) {
  (void)unused;
  return PyBool_FromLong(!device_of(&t->head));
}

static PyObject *get_is_cuda(Tensor *t, void *unused) {
  (void)unused;
  return PyBool_FromLong(device_of(&t->head));
}

static PyObject *get_itemsize(Tensor *t, void *unused) {
  (void)unused;
  return tensor_element_size(t, NULL);
}

static PyObject *get_nbytes(Tensor *t, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(t->head.count * rt->item_bytes(number_of_type(&t->head)));
}

static PyGetSetDef tensor_getset[] = {
    {"shape", (getter)get_shape, NULL, NULL, NULL},
    {"dtype", (getter)get_dtype, NULL, NULL, NULL},
    {"ndim", (getter)get_ndim, NULL, NULL, NULL},
    {"_version", (getter)get_version, NULL, NULL, NULL},
    {"_device", (getter)get_device, NULL, NULL, NULL},
    {"device", (getter)get_device_shown, NULL, NULL, NULL},
    {"is_cpu", (getter)get_is_cpu, NULL, NULL, NULL},
    {"is_cuda", (getter)get_is_cuda, NULL, NULL, NULL},
    {"itemsize", (getter)get_itemsize, NULL, NULL, NULL},
    {"nbytes", (getter)get_nbytes, NULL, NULL, NULL},
    {"requires_grad", (getter)get_requires_grad, (setter)set_requires_grad, NULL, NULL},
    {"is_leaf", (getter)get_is_leaf, NULL, NULL, NULL},
    {"grad", (getter)get_grad, (setter)set_grad, NULL, NULL},
    {"grad_fn", (getter)get_fn, NULL, NULL, NULL},
    {"output_nr", (getter)get_output_nr, NULL, NULL, NULL},
    {"data", (getter)get_data, (setter)set_data, NULL, NULL},
    {"_base", (getter)get_base, NULL, NULL, NULL},
    {"_storage", (getter)get_storage, NULL, NULL, NULL},
    {"_backward_hooks", (getter)get_hooks, (setter)set_hooks, NULL, NULL},
    {"__dict__", get_dict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef tensor_members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(Tensor, dict), READONLY, NULL},
                                       {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weak), READONLY, NULL},
                                       {NULL, 0, 0, 0, NULL}};
static PyMethodDef tensor_methods[] = {{"size", FAST(tensor_size), METH_FASTCALL, NULL},
                                       {"stride", FAST(tensor_stride), METH_FASTCALL, NULL},
                                       {"is_inference", FAST(tensor_is_inference), METH_NOARGS, NULL},
                                       {"numel", FAST(tensor_numel), METH_NOARGS, NULL},
                                       {"nelement", FAST(tensor_numel), METH_NOARGS, NULL},
                                       {"dim", FAST(tensor_dim), METH_NOARGS, NULL},
                                       {"ndimension", FAST(tensor_dim), METH_NOARGS, NULL},
                                       {"element_size", FAST(tensor_element_size), METH_NOARGS, NULL},
                                       {"storage_offset", FAST(tensor_offset), METH_NOARGS, NULL},
                                       {"data_ptr", FAST(tensor_data_ptr), METH_NOARGS, NULL},
                                       {"is_contiguous", FAST(tensor_is_contiguous), METH_FASTCALL | METH_KEYWORDS, NULL},
                                       {"item", FAST(tensor_item), METH_NOARGS, NULL},
                                       {"detach", FAST(tensor_detach), METH_NOARGS, NULL},
                                       {"_array", FAST(tensor_array), METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
