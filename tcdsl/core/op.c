/* Op: an operation on tensors. A call whose form its launcher knows runs and is recorded here; any other is slow's. */

/* Raise a RuntimeError that names the operation; NULL. */
static PyObject *error_of(const Op *op, const char *why) {
  PyErr_Format(PyExc_RuntimeError, "%U: %s", op->name, why);
  return NULL;
}

/* The recipe of a call of this entry for these gradients: kept with the entry, made once. Borrowed from there. */
static inline Recipe *recipe_of(PyObject *entry, tc_u64 needs) {
  for (Plan *p = (Plan *)*rt->note(entry); p; p = p->next)
    if (p->needs == needs) return p->recipe;
  return NULL;
}

static Recipe *make_recipe(Op *op, PyObject *entry, tc_u64 needs, PyObject *const *in, int n) {
  if (!op->plan) {
    error_of(op, "the derivative of this operation is not implemented");
    return NULL;
  }
  PyObject *values = PyTuple_New(n);
  for (int i = 0; values && i < n; i++) PyTuple_SetItem(values, i, Py_NewRef(in[i]));
  PyObject *made = values ? PyObject_CallFunction(op->plan, "OKO", entry, (unsigned long long)needs, values) : NULL;
  Py_DecRef(values);
  if (!made) return NULL;
  if (Py_TYPE(made) != recipe_type) {
    Py_DecRef(made);
    PyErr_SetString(PyExc_TypeError, "a plan gives a Recipe");
    return NULL;
  }
  Plan *plan = (Plan *)PyType_GenericAlloc(plan_type, 0);
  if (!plan) {
    Py_DecRef(made);
    return NULL;
  }
  plan->needs = needs;
  plan->recipe = (Recipe *)made;
  PyObject **note = rt->note(entry);
  plan->next = (Plan *)*note;
  *note = (PyObject *)plan;
  return plan->recipe;
}

static void plan_dealloc(Plan *p) {
  PyTypeObject *type = Py_TYPE(p);
  Py_DecRef((PyObject *)p->recipe);
  Py_DecRef((PyObject *)p->next);
  ((void (*)(void *))PyType_GetSlot(type, Py_tp_free))(p);
  Py_DecRef((PyObject *)type);
}

static PyType_Slot plan_slots[] = {{Py_tp_dealloc, plan_dealloc}, {0, NULL}};
static PyType_Spec plan_spec = {"tcdsl.core._core.Plan", sizeof(Plan), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, plan_slots};

/* Refuse to write into a view in PyTorch's words; NULL. */
static PyObject *view_error(const Tensor *t) {
  const char *several = "This view is the output of a function that returns multiple views. Such functions do not allow "
                        "the output views to be modified inplace. You should replace the inplace operation by an "
                        "out-of-place one.";
  if (t->head.flags & VIEW_OF_SEVERAL && t->fn) {
    PyObject *end = PyUnicode_InternFromString("Backward"), *parts = end ? PyUnicode_Partition(t->fn->name, end) : NULL;
    if (parts) /* Unbind, of UnbindBackward0 */
      PyErr_Format(PyExc_RuntimeError, "Output %d of %U is a view and is being modified inplace. %s", t->out_nr,
                   PyTuple_GetItem(parts, 0), several);
    Py_DecRef(end);
    Py_DecRef(parts);
    return NULL;
  }
  if (t->head.flags & VIEW_OF_SEVERAL)
    return PyErr_Format(PyExc_RuntimeError, "A view is being modified inplace. %s", several);
  if (t->fn)
    return PyErr_Format(PyExc_RuntimeError,
                        "Output %d of %U is a view and is being modified inplace. This view was created inside a custom "
                        "Function (or because an input was returned as-is) and the autograd logic to handle "
                        "view+inplace would override the custom backward associated with the custom Function, leading "
                        "to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of "
                        "the custom Function.",
                        t->out_nr, t->fn->name);
  refuse_unrecorded("is being");
  return NULL;
}

/* Whether a write is refused because its target was made in inference mode, which is over: not 0 with an error. */
static int is_past_inference(const Tensor *t) {
  if (!(t->head.flags & INFERENCE) || infers) return 0;
  PyErr_SetString(PyExc_RuntimeError,
                  "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
                  "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.");
  return 1;
}

/* Whether a write is allowed, before anything runs, where calls are recorded: 0 yes, 1 it is slow's, -1 an error.
 * recorded: whether the write itself is. */
static int may_write(Tensor *t, int recorded) {
  const Tensor *base = (Tensor *)t->base;
  if (t->head.flags & LEAF_REQUIRES && !t->fn) {
    PyErr_SetString(PyExc_RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation.");
    return -1;
  }
  if (!base) return 0;
  if (t->head.flags & (VIEW_UNRECORDED | VIEW_OF_SEVERAL) && (recorded || base->head.flags & TENSOR_TRACKED)) {
    view_error(t);
    return -1;
  }
  /* or of a leaf that is a view: what a node made of memory that none is recorded of */
  if ((base->head.flags & LEAF_REQUIRES && !base->fn) || (t->fn && !(base->head.flags & TENSOR_TRACKED))) {
    PyErr_SetString(PyExc_RuntimeError,
                    "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    return -1;
  }
  return 1;
}

/* Whether these gradients of a write read what it writes over: 1, 0, or -1 where no recipe has told. */
static inline int reads_over(const Op *op, tc_u64 needs) {
  return needs < 64 && op->judged >> needs & 1 ? (int)(op->reads_over >> needs & 1) : -1;
}

/* Learn it from the recipe, before the write. */
static int judge(Op *op, PyObject *entry, tc_u64 needs, PyObject *const *in, const PyObject *target) {
  Recipe *recipe = recipe_of(entry, needs);
  if (!recipe && !(recipe = make_recipe(op, entry, needs, in, op->n_in))) return -1;
  int reads = 0;
  for (int k = 0; k < recipe->n_kept; k++) reads |= recipe->kept[k] < TAKE_FORM && in[recipe->kept[k]] == target;
  if (needs < 64) {
    op->judged |= (tc_u64)1 << needs;
    op->reads_over |= (tc_u64)reads << needs;
  }
  return reads;
}

/* A dense copy that no node made. */
static PyObject *copy_of(PyObject *tensor) {
  int saved = grad_on;
  grad_on = 0;
  PyObject *copy = PyObject_Vectorcall(py.copy, &tensor, 1, NULL);
  grad_on = saved;
  return copy;
}

static int record_call(Op *op, PyObject *entry, PyObject *const *in, PyObject *result, PyObject *before,
                       tc_u64 needs) {
  PyObject *out[MOST_INPUTS];
  tc_u64 made = 0;
  int n_out = op->n_out;
  if (n_out == 1)
    out[0] = result;
  for (int r = 0; n_out > 1 && r < n_out; r++) out[r] = PyTuple_GetItem(result, r);
  for (int r = 0; r < n_out; r++)
    if (is_float[number_of_type((TensorHead *)out[r])]) made |= (tc_u64)1 << r;
  if (!made) return 0;
  Recipe *recipe = recipe_of(entry, needs);
  if (!recipe && !(recipe = make_recipe(op, entry, needs, in, op->n_in))) return -1;
  int is_large = recipe->large && is_tensor(in[recipe->to[0]]) && ((Tensor *)in[recipe->to[0]])->head.count >= LARGE;
  return record(recipe->name ? recipe->name : op->name, recipe, is_large ? recipe->large : NULL, needs, in, op->n_in, out,
                n_out, made, before, op->writes);
}

/* Finish a call that ran: what was written, what is recorded. Steals result, entry and before. */
static PyObject *finished(Op *op, PyObject *entry, PyObject *const *in, PyObject *result, PyObject *before,
                          tc_u64 needs) {
  if (result && needs && record_call(op, entry, in, result, before, needs)) Py_CLEAR(result);
  Py_DecRef(entry);
  Py_DecRef(before);
  return result;
}

/* A call into a tensor that it names, `out=`, where nothing is recorded. NULL without an error: it is Python's. */
static PyObject *call_into(const Op *op, PyObject *const *args, PyObject *keywords) {
  static PyObject *word;
  PyObject *out = args[op->n_in];
  if (!word && !(word = PyUnicode_InternFromString("out"))) return NULL;
  if (op->writes || op->n_out != 1 || PyTuple_Size(keywords) != 1 || PyTuple_GetItem(keywords, 0) != word ||
      !is_tensor(out))
    return NULL;
  int found = 0, failed = 0;
  for (int i = 0; i < op->n_in; i++) {
    void *type = Py_TYPE(args[i]);
    if (is_tensor(args[i]))
      found = 1;
    else if (type != PyFloat_Type && type != PyLong_Type && type != PyBool_Type)
      return NULL;
  }
  if (!found || (grad_on && (needs_of(args, op->n_in + 1, &failed) || failed))) return NULL;
  if (is_past_inference((Tensor *)out) || (grad_on && may_write((Tensor *)out, 0) < 0)) return NULL;
  return rt->call(op->launcher, args, &out, NULL);
}

static PyObject *op_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords) {
  Op *op = (Op *)self;
  int n = op->n_in, found = 0;
  tc_u64 needs = 0;
  if (casting && is_set(op->cast)) return PyObject_Vectorcall(op->cast, args, nargsf, keywords);
  if (PyVectorcall_NARGS(nargsf) != n || keywords) {
    PyObject *made = keywords && PyVectorcall_NARGS(nargsf) == n ? call_into(op, args, keywords) : NULL;
    if (made || PyErr_Occurred()) return made;
    return PyObject_Vectorcall(is_set(op->named) ? op->named : op->slow, args, nargsf, keywords);
  }
  for (int i = 0; i < n; i++) {
    PyObject *o = args[i];
    void *type = Py_TYPE(o);
    if (is_tensor(o)) {
      Tensor *t = (Tensor *)o;
      int yes = is_tracked(t);
      if (yes < 0) return NULL;
      needs |= (tc_u64)yes << i;
      found = 1;
    } else if (type != PyFloat_Type && type != PyLong_Type && type != PyBool_Type)
      goto slow;
  }
  if (!found) goto slow;
  if (!grad_on) needs = 0;
  if (needs && op->recorded && op->recorded != Py_None && !op->writes)
    return PyObject_Vectorcall(op->recorded, args, nargsf, NULL);
  PyObject *entry = NULL, *before = NULL, *const *out = op->writes ? args : NULL;
  if (op->writes) {
    if (!is_tensor(args[0])) goto slow;
    if (is_past_inference((Tensor *)args[0])) return NULL;
    int no = grad_on ? may_write((Tensor *)args[0], needs != 0) : 0;
    if (no < 0) return NULL;
    int copies = needs ? reads_over(op, needs) : 0;
    if ((no && needs) || copies < 0) goto slow;
    if (copies && !(before = copy_of(args[0]))) return NULL;
  }
  PyObject *result = rt->call(op->launcher, args, out, needs ? &entry : NULL);
  if (result) return needs ? finished(op, entry, args, result, before, needs) : result;
  Py_DecRef(before);
  if (PyErr_Occurred()) return NULL;
slow:
  return PyObject_Vectorcall(op->slow, args, nargsf, keywords);
}

/* run(entry, inputs[, outputs]): what a call does whose form is known. */
static PyObject *op_run(Op *op, PyObject *args) {
  PyObject *entry, *inputs, *outputs = Py_None, *before = NULL, *in[MOST_INPUTS], *out[MOST_INPUTS];
  if (!PyArg_ParseTuple(args, "OO|O", &entry, &inputs, &outputs)) return NULL;
  int has_out = outputs != Py_None, failed = 0;
  if (tuple_length(inputs) != op->n_in || (has_out && tuple_length(outputs) != op->n_out)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the numbers of operands of operation and call differ");
    return NULL;
  }
  for (int i = 0; i < op->n_in; i++) in[i] = PyTuple_GetItem(inputs, i);
  for (int r = 0; has_out && r < op->n_out; r++) out[r] = PyTuple_GetItem(outputs, r);
  tc_u64 needs = grad_on ? needs_of(in, op->n_in, &failed) : 0;
  if (failed) return NULL;
  if (needs && op->writes && has_out && is_float[number_of_type((TensorHead *)out[0])]) {
    int copies = judge(op, entry, needs, in, out[0]);
    if (copies < 0 || (copies && !(before = copy_of(out[0])))) return NULL;
  }
  PyObject *result = rt->run(op->launcher, entry, in, has_out ? out : NULL);
  if (!result && !PyErr_Occurred())
    error_of(op, "an output is read-only or shares memory with an input, or a number does not fit its type");
  return finished(op, Py_NewRef(entry), in, result, before, needs);
}

static PyObject *op_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name", "launcher", "slow", "plan", "n_in", "n_out", "writes", NULL};
  PyObject *name, *launcher, *slow, *plan;
  int n_in, n_out, writes = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOii|i", names, &name, &launcher, &slow, &plan, &n_in, &n_out,
                                   &writes))
    return NULL;
  if (n_in < 1 || n_in > MOST_INPUTS || n_out < 1 || n_out > MOST_INPUTS) {
    PyErr_Format(PyExc_ValueError, "an operation has 1 to %d inputs and outputs", MOST_INPUTS);
    return NULL;
  }
  Op *op = (Op *)PyType_GenericAlloc(type, 0);
  if (!op) return NULL;
  op->name = Py_NewRef(name);
  op->launcher = Py_NewRef(launcher);
  op->slow = Py_NewRef(slow);
  op->plan = plan == Py_None ? NULL : Py_NewRef(plan);
  op->n_in = n_in;
  op->n_out = n_out;
  op->writes = writes;
  op->call = op_call;
  return (PyObject *)op;
}

static int op_traverse(Op *op, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(op));
  Py_VISIT(op->launcher);
  Py_VISIT(op->slow);
  Py_VISIT(op->named);
  Py_VISIT(op->recorded);
  Py_VISIT(op->cast);
  Py_VISIT(op->plan);
  Py_VISIT(op->dict);
  return 0;
}

static int op_clear(Op *op) {
  Py_CLEAR(op->launcher);
  Py_CLEAR(op->slow);
  Py_CLEAR(op->named);
  Py_CLEAR(op->recorded);
  Py_CLEAR(op->cast);
  Py_CLEAR(op->plan);
  Py_CLEAR(op->dict);
  return 0;
}

static void op_dealloc(Op *op) {
  PyTypeObject *type = Py_TYPE(op);
  PyObject_GC_UnTrack(op);
  op_clear(op);
  Py_DecRef(op->name);
  PyObject_GC_Del(op);
  Py_DecRef((PyObject *)type);
}

static PyObject *op_repr(Op *op) { return PyUnicode_FromFormat("<op %U>", op->name); }

static PyMemberDef op_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Op, call), READONLY, NULL},
                                   {"__dictoffset__", T_PYSSIZET, offsetof(Op, dict), READONLY, NULL},
                                   {"name", T_OBJECT, offsetof(Op, name), READONLY, NULL},
                                   {"launcher", T_OBJECT, offsetof(Op, launcher), READONLY, NULL},
                                   {"slow", T_OBJECT, offsetof(Op, slow), READONLY, NULL},
                                   {"named", T_OBJECT, offsetof(Op, named), 0, NULL},
                                   {"recorded", T_OBJECT, offsetof(Op, recorded), 0, NULL},
                                   {"cast", T_OBJECT, offsetof(Op, cast), 0, NULL},
                                   {NULL, 0, 0, 0, NULL}};
static PyGetSetDef op_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                  {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef op_methods[] = {{"run", FAST(op_run), METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot op_slots[] = {{Py_tp_new, op_new},         {Py_tp_dealloc, op_dealloc},     {Py_tp_traverse, op_traverse},
                                 {Py_tp_clear, op_clear},     {Py_tp_call, PyVectorcall_Call}, {Py_tp_members, op_members},
                                 {Py_tp_methods, op_methods}, {Py_tp_repr, op_repr},           {Py_tp_getset, op_getset},
                                 {0, NULL}};
static PyType_Spec op_spec = {
    "tcdsl.core._core.Op", sizeof(Op), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, op_slots};
