/* tcdsl.core._core, one translation unit. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <string.h>
#include "core/core.h"
#include "core/tensor.c"
#include "core/node.c"
#include "core/face.c"
#include "core/op.c"
#include "core/layouts.c"
#include "core/views.c"
#include "core/function.c"
#include "core/walk.c"
#include "core/backward.c"

static PyObject *tensor_backward(Tensor *t, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  if (n || keywords) { /* in Python: what is not the usual call */
    PyObject *all[8] = {(PyObject *)t};
    Py_ssize_t n_all = n + (keywords ? PyTuple_Size(keywords) : 0);
    if (n_all > 7) {
      PyErr_SetString(PyExc_TypeError, "backward() got too many arguments");
      return NULL;
    }
    memcpy(all + 1, args, (size_t)n_all * sizeof *all);
    return PyObject_Vectorcall(py.backward, all, (size_t)n + 1, keywords);
  }
  PyObject *root = (PyObject *)t, *none = Py_None;
  return backward(&root, &none, 1, NULL, 0, 0);
}

static PyMethodDef more_tensor_methods[] = {{"backward", FAST(tensor_backward), METH_FASTCALL | METH_KEYWORDS, NULL}};

/* Tensor(other): another tensor over the same memory, of this class; of Tensor itself, what Python makes of all else. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *of = PyTuple_Size(args) == 1 && !kwargs ? PyTuple_GetItem(args, 0) : NULL;
  if (!of || !is_tensor(of)) {
    if (type == tensor_type && py.construct) return PyObject_Call(py.construct, args, kwargs);
    PyErr_SetString(PyExc_TypeError, "expected a Tensor");
    return NULL;
  }
  const Tensor *t = (Tensor *)of;
  int nd = rank_of(&t->head);
  return (PyObject *)tensor_view(type, t, nd, t->head.dims, t->head.dims + nd, 0);
}

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
  Tensor *t = tensor_alloc(tensor_type, nd);
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
  Tensor *t = tensor_alloc(tensor_type, nd);
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
  Tensor *t = tensor_alloc(tensor_type, nd);
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

/* record(name, recipe, vjp, inputs, outputs, needs): outputs were made of inputs. */
static PyObject *m_record(PyObject *m, PyObject *args) {
  PyObject *name, *recipe, *vjp, *inputs, *outputs, *in[MOST_INPUTS], *out[MOST_INPUTS];
  unsigned long long needs;
  (void)m;
  if (!PyArg_ParseTuple(args, "OOOOOK", &name, &recipe, &vjp, &inputs, &outputs, &needs)) return NULL;
  Py_ssize_t n_in = tuple_length(inputs), n_out = tuple_length(outputs);
  if (n_in < 0 || n_out < 0) return NULL;
  if (n_in > MOST_INPUTS || n_out < 1 || n_out > MOST_INPUTS || Py_TYPE(recipe) != recipe_type) {
    PyErr_Format(PyExc_ValueError, "record takes a Recipe, and at most %d inputs and outputs", MOST_INPUTS);
    return NULL;
  }
  tc_u64 made = 0;
  for (int i = 0; i < n_in; i++) {
    in[i] = PyTuple_GetItem(inputs, i);
    if (!is_tensor(in[i])) needs &= ~((tc_u64)1 << i);
  }
  for (int r = 0; r < n_out; r++) {
    out[r] = PyTuple_GetItem(outputs, r);
    if (!is_tensor(out[r])) {
      PyErr_SetString(PyExc_TypeError, "outputs are Tensors");
      return NULL;
    }
    if (is_float[number_of_type((TensorHead *)out[r])]) made |= (tc_u64)1 << r;
  }
  vjp = vjp == Py_None ? NULL : vjp;
  if (((Recipe *)recipe)->name) name = ((Recipe *)recipe)->name;
  if (needs && !infers && record(name, (Recipe *)recipe, vjp, needs, in, (int)n_in, out, (int)n_out, made, NULL, 0))
    return NULL;
  return Py_NewRef(Py_None);
}

/* made_by(tensor, name): the tensor, whose node, if it has one, is called so from now on. */
static PyObject *m_made_by(PyObject *m, PyObject *args) {
  PyObject *t, *name;
  (void)m;
  if (!PyArg_ParseTuple(args, "OO", &t, &name)) return NULL;
  if (!is_tensor(t)) {
    PyErr_SetString(PyExc_TypeError, "made_by takes a Tensor and a name");
    return NULL;
  }
  Node *n = ((Tensor *)t)->fn;
  if (n) {
    PyObject *old = n->name;
    n->name = Py_NewRef(name);
    Py_DecRef(old);
    if (Py_TYPE(n) != node_type) become(n, (PyTypeObject *)Py_NewRef(node_type)); /* until it is shown again */
  }
  return Py_NewRef(t);
}

/* set_fn(tensor, node or None, output): what made it. */
static PyObject *m_set_fn(PyObject *m, PyObject *args) {
  PyObject *t, *fn;
  int nr;
  (void)m;
  if (!PyArg_ParseTuple(args, "OOi", &t, &fn, &nr)) return NULL;
  if (!is_tensor(t) || (fn != Py_None && (!is_node(fn) || nr < 0 || nr >= ((Node *)fn)->n_out))) {
    PyErr_SetString(PyExc_TypeError, "set_fn takes a Tensor, a Node or None, and the number of an output");
    return NULL;
  }
  set_fn((Tensor *)t, fn == Py_None ? NULL : (Node *)Py_NewRef(fn), nr);
  return Py_NewRef(Py_None);
}

/* set_base(tensor, base or None): of which it is a view from now on. */
static PyObject *m_set_base(PyObject *m, PyObject *args) {
  PyObject *t, *base;
  (void)m;
  if (!PyArg_ParseTuple(args, "OO", &t, &base)) return NULL;
  if (!is_tensor(t) || (base != Py_None && !is_tensor(base))) {
    PyErr_SetString(PyExc_TypeError, "set_base takes Tensors");
    return NULL;
  }
  PyObject *old = ((Tensor *)t)->base;
  ((Tensor *)t)->base = base == Py_None ? NULL : Py_NewRef(base);
  if (base != Py_None) track(t);
  Py_DecRef(old);
  return Py_NewRef(Py_None);
}

/* written(tensor): its elements have changed. */
static PyObject *m_written(PyObject *m, PyObject *t) {
  (void)m;
  if (!is_tensor(t)) {
    PyErr_SetString(PyExc_TypeError, "expected a Tensor");
    return NULL;
  }
  ((Tensor *)t)->head.storage->version++;
  return Py_NewRef(Py_None);
}

/* fresh(tensor): it is new, and what has been written into it was its making. */
static PyObject *m_fresh(PyObject *m, PyObject *t) {
  (void)m;
  if (!is_tensor(t)) {
    PyErr_SetString(PyExc_TypeError, "expected a Tensor");
    return NULL;
  }
  ((Tensor *)t)->seen = ((Tensor *)t)->head.storage->version = 0;
  return Py_NewRef(Py_None);
}

/* check_write(tensor, recorded): raise where a tensor may not be written; recorded: whether the write itself is. */
static PyObject *m_check_write(PyObject *m, PyObject *args) {
  PyObject *t;
  int recorded;
  (void)m;
  if (!PyArg_ParseTuple(args, "Oi", &t, &recorded)) return NULL;
  if (!is_tensor(t)) {
    PyErr_SetString(PyExc_TypeError, "expected a Tensor");
    return NULL;
  }
  if (is_past_inference((Tensor *)t)) return NULL;
  return grad_on && may_write((Tensor *)t, recorded) < 0 ? NULL : Py_NewRef(Py_None);
}

/* backward(roots, gradients, inputs or None, keeps, creates) */
static PyObject *m_backward(PyObject *m, PyObject *args) {
  PyObject *roots, *grads, *inputs, **at, *result;
  int keeps, creates;
  (void)m;
  if (!PyArg_ParseTuple(args, "OOOii", &roots, &grads, &inputs, &keeps, &creates)) return NULL;
  Py_ssize_t n = tuple_length(roots), n_inputs = inputs == Py_None ? 0 : tuple_length(inputs);
  if (n < 0 || n_inputs < 0 || tuple_length(grads) < 0) return NULL;
  if (n > INT_MAX || PyTuple_Size(grads) != n) {
    PyErr_SetString(PyExc_ValueError, "backward takes a gradient or None for each root");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_tensor(PyTuple_GetItem(roots, i)) ||
        (PyTuple_GetItem(grads, i) != Py_None && !is_tensor(PyTuple_GetItem(grads, i)))) {
      PyErr_SetString(PyExc_TypeError, "roots and their gradients are Tensors");
      return NULL;
    }
  for (Py_ssize_t i = 0; i < n_inputs; i++) {
    PyObject *t = PyTuple_GetItem(inputs, i);
    int yes = is_tensor(t) ? is_tracked((Tensor *)t) : 0;
    if (yes < 0) return NULL;
    for (int r = 0; !yes && r < n; r++) { /* of both, the root is named */
      int has_any = is_tracked((Tensor *)PyTuple_GetItem(roots, r));
      if (has_any < 0) return NULL;
      if (!has_any) return no_root(r);
    }
    if (!yes) {
      PyErr_SetString(PyExc_RuntimeError, "One of the differentiated Tensors does not require grad");
      return NULL;
    }
  }
  if (!(at = malloc((2 * (size_t)n + 1) * sizeof *at))) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) {
    at[i] = PyTuple_GetItem(roots, i);
    at[n + i] = PyTuple_GetItem(grads, i);
  }
  result = backward(at, at + n, (int)n, inputs == Py_None ? NULL : inputs, keeps, creates);
  free(at);
  return result;
}

static PyObject *m_is_grad_enabled(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyBool_FromLong(infers ? grad_said : grad_on);
}

static PyObject *m_set_grad_enabled(PyObject *m, PyObject *value) {
  int yes = PyObject_IsTrue(value), *on = infers ? &grad_said : &grad_on, old = *on;
  (void)m;
  if (yes < 0) return NULL;
  *on = yes;
  return PyBool_FromLong(old);
}

static PyObject *m_is_inference_mode(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyBool_FromLong(infers);
}

/* In inference mode nothing is recorded, whatever set_grad_enabled says. */
static PyObject *m_set_inference_mode(PyObject *m, PyObject *value) {
  int yes = PyObject_IsTrue(value), old = infers;
  (void)m;
  if (yes < 0) return NULL;
  infers = yes;
  grad_on = !yes;
  grad_said = 0;
  return PyBool_FromLong(old);
}

/* set_saving(hooks or None): of what this thread's calls keep from now on; gives those before. */
static PyObject *m_set_saving(PyObject *m, PyObject *hooks) {
  PyObject *old = saving;
  (void)m;
  saving = hooks == Py_None ? NULL : Py_NewRef(hooks);
  return old ? old : Py_NewRef(Py_None);
}

static PyObject *m_saving(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return newref_or_none(saving);
}

static PyObject *m_is_casting(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyBool_FromLong(casting);
}

static PyObject *m_set_casting(PyObject *m, PyObject *value) {
  int yes = PyObject_IsTrue(value), old = casting;
  (void)m;
  if (yes < 0) return NULL;
  casting = yes;
  return PyBool_FromLong(old);
}

/* operator(number of a slot, callable): what a language operator on tensors calls. */
static PyObject *m_operator(PyObject *m, PyObject *args) {
  int slot;
  PyObject *op;
  (void)m;
  if (!PyArg_ParseTuple(args, "iO", &slot, &op)) return NULL;
  if (slot < 0 || slot >= SLOTS) {
    PyErr_SetString(PyExc_ValueError, "no slot of a number");
    return NULL;
  }
  PyObject *old = operators[slot];
  operators[slot] = Py_NewRef(op);
  Py_DecRef(old);
  return Py_NewRef(Py_None);
}

/* setup(name, value): see `py` in core.h. */
static PyObject *m_setup(PyObject *m, PyObject *args) {
  static const struct {
    const char *name;
    PyObject **at;
  } known[] = {{"size_type", &py.size_type}, {"dtypes", &py.dtypes}, {"bind", &py.bind},     {"add", &py.add},
               {"host", &py.host},           {"gpu", &py.gpu},
               {"add_into", &py.add_into},   {"copy", &py.copy},     {"laid_as", &py.laid_as}, {"zeros", &py.zeros},
               {"one", &py.one},
               {"fit", &py.fit},             {"hooked", &py.hooked}, {"renew", &py.renew},   {"backward", &py.backward},
               {"on_host", &py.on_host},     {"place", &py.place}, {"trace", &py.trace},   {"judge", &py.judge},
               {"construct", &py.construct}, {"is_laid", &py.is_laid}, {"leaf_node", &py.leaf_node},
               {"node_type", &py.node_type}, {"around", &py.around}, {"pack", &py.pack},     {"unpack", &py.unpack},
               {"packed", &py.packed},       {"written", &py.written},     {"refusal", &py.refusal}};
  const char *name;
  PyObject *value;
  (void)m;
  if (!PyArg_ParseTuple(args, "sO", &name, &value)) return NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, name)) {
      PyObject *old = *known[i].at;
      *known[i].at = Py_NewRef(value);
      Py_DecRef(old);
      return Py_NewRef(Py_None);
    }
  return PyErr_Format(PyExc_ValueError, "there is no '%s' to set up", name);
}

/* take_runtime(capsule, numbers of the types that are floats) */
static PyObject *m_take_runtime(PyObject *m, PyObject *args) {
  PyObject *capsule, *floats;
  (void)m;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &floats)) return NULL;
  rt = PyCapsule_GetPointer(capsule, TC_RUNTIME_NAME);
  for (Py_ssize_t i = 0, n = tuple_length(floats); i < n; i++) {
    long long number = PyLong_AsLongLong(PyTuple_GetItem(floats, i));
    if (number >= 0 && number < MOST_TYPES) is_float[number] = 1;
  }
  return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static int tracks(void) { return grad_on; }

static PyMethodDef module_methods[] = {{"empty", m_empty, METH_VARARGS, NULL},
                                       {"lent", m_lent, METH_VARARGS, NULL},
                                       {"over", m_over, METH_O, NULL},
                                       {"view", m_view, METH_VARARGS, NULL},
                                       {"retyped", m_retyped, METH_VARARGS, NULL},
                                       {"record", m_record, METH_VARARGS, NULL},
                                       {"made_by", m_made_by, METH_VARARGS, NULL},
                                       {"set_fn", m_set_fn, METH_VARARGS, NULL},
                                       {"set_base", m_set_base, METH_VARARGS, NULL},
                                       {"written", m_written, METH_O, NULL},
                                       {"fresh", m_fresh, METH_O, NULL},
                                       {"check_write", m_check_write, METH_VARARGS, NULL},
                                       {"backward", m_backward, METH_VARARGS, NULL},
                                       {"is_grad_enabled", m_is_grad_enabled, METH_NOARGS, NULL},
                                       {"set_grad_enabled", m_set_grad_enabled, METH_O, NULL},
                                       {"is_inference_mode", m_is_inference_mode, METH_NOARGS, NULL},
                                       {"set_inference_mode", m_set_inference_mode, METH_O, NULL},
                                       {"set_saving", m_set_saving, METH_O, NULL},
                                       {"saving", m_saving, METH_NOARGS, NULL},
                                       {"is_casting", m_is_casting, METH_NOARGS, NULL},
                                       {"set_casting", m_set_casting, METH_O, NULL},
                                       {"operator", m_operator, METH_VARARGS, NULL},
                                       {"setup", m_setup, METH_VARARGS, NULL},
                                       {"take_runtime", m_take_runtime, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_core", NULL, -1, module_methods, NULL, NULL, NULL, NULL};

static PyTypeObject *make_tensor_type(void) {
  static PyMethodDef methods[sizeof tensor_methods / sizeof *tensor_methods + 1];
  size_t n = sizeof tensor_methods / sizeof *tensor_methods - 1;
  memcpy(methods, tensor_methods, n * sizeof *methods);
  methods[n] = more_tensor_methods[0];
#define BINARY_SLOT(k) {k, binary_##k},
#define UNARY_SLOT(k) {k, unary_##k},
  PyType_Slot slots[] = {{Py_tp_new, tensor_new},         {Py_tp_dealloc, tensor_dealloc}, {Py_tp_traverse, tensor_traverse},
                         {Py_tp_clear, tensor_clear},     {Py_tp_getset, tensor_getset},   {Py_tp_members, tensor_members},
                         {Py_tp_methods, methods},        {Py_tp_setattro, tensor_setattro},
                         {Py_nb_bool, tensor_bool},       {33, power_33},                  {20, power_20},
                         EACH_BINARY(BINARY_SLOT) EACH_UNARY(UNARY_SLOT) {0, NULL}};
  PyType_Spec spec = {"tcdsl.Tensor", sizeof(Tensor), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}

PyMODINIT_FUNC PyInit__core(void) {
  static tc_tensors ours = {TC_TENSOR_ABI, NULL, tensor_fresh, tracks};
  PyObject *m = PyModule_Create2(&module, 1013);
  tensor_type = make_tensor_type();
  node_type = (PyTypeObject *)PyType_FromSpec(&node_spec);
  recipe_type = (PyTypeObject *)PyType_FromSpec(&recipe_spec);
  op_type = (PyTypeObject *)PyType_FromSpec(&op_spec);
  plan_type = (PyTypeObject *)PyType_FromSpec(&plan_spec);
  view_type = (PyTypeObject *)PyType_FromSpec(&view_spec);
  function_type = (PyTypeObject *)PyType_FromSpec(&function_spec);
  method_type = (PyTypeObject *)PyType_FromSpec(&method_spec);
  PyObject *sizes_type = PyType_FromSpecWithBases(&sizes_spec, (PyObject *)(void *)PyTuple_Type);
  if (!m || !function_type || !method_type || !sizes_type || !plan_type || !tensor_type || !node_type || !recipe_type || !op_type || !view_type)
    return NULL;
  ours.type = tensor_type;
  pthread_atfork(NULL, NULL, forget_runs);
  if (PyModule_AddObject(m, "Tensor", (PyObject *)tensor_type) || PyModule_AddObject(m, "Node", (PyObject *)node_type) ||
      PyModule_AddObject(m, "Recipe", (PyObject *)recipe_type) || PyModule_AddObject(m, "Op", (PyObject *)op_type) ||
      PyModule_AddObject(m, "View", (PyObject *)view_type) ||
      PyModule_AddObject(m, "Function", (PyObject *)function_type) ||
      PyModule_AddObject(m, "Method", (PyObject *)method_type) ||
      PyModule_AddObject(m, "Sizes", sizes_type) ||
      PyModule_AddObject(m, "functions", PyCapsule_New(&ours, TC_TENSORS_NAME, NULL)))
    return NULL;
  return m;
}
