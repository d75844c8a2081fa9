/* A call is recorded: a node with its edges, and what the way back needs of inputs and outputs. */

/* The gradients that a call would have to give, as bits; in *failed whether a view could not be renewed. */
static tc_u64 needs_of(PyObject *const *in, int n, int *failed) {
  tc_u64 needs = 0;
  for (int i = 0; i < n; i++) {
    if (!is_tensor(in[i])) continue;
    int yes = is_tracked((Tensor *)in[i]);
    *failed |= yes < 0;
    if (yes > 0) needs |= (tc_u64)1 << i;
  }
  return needs;
}

/* Refuse to keep what was made in inference mode: not 0 with an error. */
static int is_of_inference(const Tensor *t) {
  if (!(t->head.flags & INFERENCE)) return 0;
  PyErr_SetString(PyExc_RuntimeError,
                  "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
                  "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
                  "use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.");
  return 1;
}

/* Keep a value. Of an output, or of an input that is no leaf with a gradient, without what made it: an edge tells it.
 * Of the memory that was written over there is the copy made before, or a version that is no more. */
static int keep(Slot *slot, unsigned char what, PyObject *const *in, PyObject *const *out, PyObject *before,
                tc_u64 needs, int writes) {
  if (what >= TAKE_OUTPUT) { /* under the node itself, so without its fn */
    Tensor *t = (Tensor *)out[what - TAKE_OUTPUT];
    *slot = (Slot){(PyObject *)alias_of(t), t->head.storage->version};
    return slot->o ? 0 : -1;
  }
  int is_form = what >= TAKE_FORM;
  PyObject *o = in[is_form ? what - TAKE_FORM : what];
  if (!is_tensor(o))
    *slot = (Slot){Py_NewRef(o), 0};
  else if (is_form)
    *slot = (Slot){(PyObject *)form_alone((Tensor *)o), 0};
  else if (is_of_inference((Tensor *)o))
    return -1;
  else if (before && o == out[0])
    *slot = (Slot){Py_NewRef(before), ((Tensor *)before)->head.storage->version};
  else if (writes && ((Tensor *)o)->head.storage == ((Tensor *)out[0])->head.storage)
    *slot = (Slot){(PyObject *)alias_of((Tensor *)o), ((Tensor *)o)->head.storage->version - 1};
  else if (((Tensor *)o)->fn || !(needs >> what & 1)) /* which may be written later, and then lead anywhere */
    *slot = (Slot){(PyObject *)alias_of((Tensor *)o), ((Tensor *)o)->head.storage->version};
  else
    *slot = (Slot){Py_NewRef(o), ((Tensor *)o)->head.storage->version};
  return slot->o ? 0 : -1;
}

static int is_whole(unsigned char what) { return what < TAKE_FORM || what >= TAKE_OUTPUT; }
static int is_packed(PyObject *o) { return py.packed && (PyObject *)Py_TYPE(o) == py.packed; }

/* Let the thread's hooks have what a node keeps: what they give may hold anything, so the collector sees the node. */
static int pack(Node *n) {
  PyObject *hooks = Py_NewRef(saving);
  int failed = 0;
  open_node(n);
  for (int k = 0; !failed && k < n->n_kept; k++) {
    Slot *kept = kept_of(n) + k;
    if (!is_whole(n->recipe->kept[k]) || !is_tensor(kept->o)) continue;
    Tensor *tensor = alias_of((Tensor *)kept->o); /* hooks see whether it was recorded, but not by what: no cycle */
    int what = n->recipe->kept[k], is_needed = what >= TAKE_OUTPUT || n->needs >> what & 1;
    if (tensor && is_needed && is_float[number_of_type(&tensor->head)])
      tensor->head.flags |= TENSOR_TRACKED | LEAF_REQUIRES;
    PyObject *two[] = {hooks, (PyObject *)tensor};
    PyObject *packed = tensor ? PyObject_Vectorcall(py.pack, two, 2, NULL) : NULL;
    Py_DecRef((PyObject *)tensor);
    failed = !packed;
    if (failed) break;
    Py_DecRef(kept->o);
    kept->o = packed;
  }
  Py_DecRef(hooks);
  return failed;
}

/* Record a call: who made the outputs at `made`, a bit each; before: a copy of what it wrote over, or NULL. */
static int record(PyObject *name, Recipe *recipe, PyObject *vjp, tc_u64 needs, PyObject *const *in, int n_in,
                  PyObject *const *out, int n_out, tc_u64 made, PyObject *before, int writes) {
  Node *n = node_new(name, recipe, n_in, n_out);
  int failed = !n;
  if (failed) return -1;
  n->needs = needs;
  n->vjp = vjp ? Py_NewRef(vjp) : NULL;
  for (int i = 0; i < n_in; i++) {
    if (!(needs >> i & 1)) continue;
    Tensor *t = (Tensor *)in[i];
    n->slot[i] = (Slot){Py_NewRef(t->fn ? (void *)t->fn : (void *)t), t->out_nr};
    n->is_open |= is_open_edge(n->slot + i);
  }
  n->is_open = n->is_open || recording_backwards ? IS_OPEN : 0;
  for (int k = 0; !failed && k < n->n_kept; k++)
    failed = keep(kept_of(n) + k, recipe->kept[k], in, out, before, needs, writes);
  for (int r = 0; !failed && n_out > 1 && r < n_out; r++)
    failed = !(forms_of(n)[r].o = (PyObject *)form_alone((Tensor *)out[r]));
  if (!failed && n->is_traced) failed = !(trace_of(n)->o = PyObject_CallFunction(py.trace, NULL));
  if (!failed && saving) failed = pack(n);
  if (n->is_open || vjp) track(n);
  for (int r = 0; !failed && r < n_out; r++)
    if (made >> r & 1) set_fn((Tensor *)out[r], (Node *)Py_NewRef(n), r);
  Py_DecRef((PyObject *)n);
  return failed ? -1 : 0;
}
