/* What Python records of its own calls, says of tensors, and asks backward for. */

/* Whether an argument is no tensor, which is an error. */
static int is_other(PyObject *t) {
  if (is_tensor(t)) return 0;
  PyErr_SetString(PyExc_TypeError, "expected a Tensor");
  return 1;
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

/* apart(tensor): whether it is no view. One that alone holds its base, which an operation has made inside, is none
   from now on. */
static PyObject *m_apart(PyObject *m, PyObject *t) {
  (void)m;
  if (is_other(t)) return NULL;
  PyObject *base = ((Tensor *)t)->base;
  if (base && base->ob_refcnt == 1) {
    ((Tensor *)t)->base = NULL;
    Py_DecRef(base);
  }
  return PyBool_FromLong(!((Tensor *)t)->base);
}

/* written(tensor): its elements have changed. */
static PyObject *m_written(PyObject *m, PyObject *t) {
  (void)m;
  if (is_other(t)) return NULL;
  ((Tensor *)t)->head.storage->version++;
  return Py_NewRef(Py_None);
}

/* fresh(tensor): it is new, and what has been written into it was its making. */
static PyObject *m_fresh(PyObject *m, PyObject *t) {
  (void)m;
  if (is_other(t)) return NULL;
  ((Tensor *)t)->seen = ((Tensor *)t)->head.storage->version = 0;
  return Py_NewRef(Py_None);
}

/* check_write(tensor, recorded): raise where a tensor may not be written; recorded: whether the write itself is. */
static PyObject *m_check_write(PyObject *m, PyObject *args) {
  PyObject *t;
  int recorded;
  (void)m;
  if (!PyArg_ParseTuple(args, "Oi", &t, &recorded)) return NULL;
  if (is_other(t)) return NULL;
  if (is_past_inference((Tensor *)t)) return NULL;
  return grad_on && may_write((Tensor *)t, recorded) < 0 ? NULL : Py_NewRef(Py_None);
}

/* arrives(node or leaf): the number of the pass that this thread is at, if a gradient arrives there in it; else 0.
 * Of leaves that have hooks. */
static PyObject *m_arrives(PyObject *m, PyObject *at) {
  const Run *run = runs;
  int yes = 0;
  (void)m;
  while (run && run->thread != &grad_on) run = run->around;
  if (run && is_node(at)) yes = ((Node *)at)->mark == run->nr && ((Node *)at)->is_wanted;
  if (run && is_tensor(at)) yes = hooked_at(run, (Tensor *)at) && (!run->inputs || leaf_asked(run, (Tensor *)at) >= 0);
  return PyLong_FromUnsignedLongLong(yes ? run->nr : 0);
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
