/* Recipe and Node: what is recorded of a call. Nodes are freed without recursion, whatever their number. */

static int node_traverse(Node *n, visitproc visit, void *arg) {
  for (Py_ssize_t i = 0; i < n->ob_base.ob_size; i++) Py_VISIT(n->slot[i].o); /* its type lives for ever */
  Py_VISIT(n->hooks);
  Py_VISIT(n->vjp);
  return 0;
}

static int node_clear(Node *n) {
  for (Py_ssize_t i = 0; i < n->ob_base.ob_size; i++) Py_CLEAR(n->slot[i].o);
  Py_CLEAR(n->hooks);
  Py_CLEAR(n->vjp);
  Py_CLEAR(n->recipe);
  return 0;
}

/* Nodes that died, by how many slots they have, as tensors are kept (tensor.c). */
enum { IDLE_SLOTS = 8 };
static Node *idle_nodes[IDLE_SLOTS + 1]; /* linked by link, and still of their type */
static int n_idle_nodes[IDLE_SLOTS + 1];

/* The memory of a node: whatever it holds is its maker's to fill. */
static Node *node_alloc(int slots) {
  Node *n = slots <= IDLE_SLOTS ? idle_nodes[slots] : NULL;
  if (!n) return PyObject_GC_NewVar(Node, node_type, slots);
  idle_nodes[slots] = n->link;
  n_idle_nodes[slots]--;
  n->ob_base.ob_base.ob_refcnt = 1;
  return n;
}

static void node_free(Node *n) {
  PyTypeObject *type = Py_TYPE(n);
  Py_ssize_t slots = n->ob_base.ob_size;
  if (type == node_type && slots <= IDLE_SLOTS && n_idle_nodes[slots] < MOST_IDLE) {
    n->link = idle_nodes[slots];
    idle_nodes[slots] = n;
    n_idle_nodes[slots]++;
    return;
  }
  PyObject_GC_Del(n);
  Py_DecRef((PyObject *)type);
}

static __thread Node *dying __attribute__((tls_model("initial-exec")));
static __thread int is_freeing __attribute__((tls_model("initial-exec")));

/* Of a chain of any length the inner calls only enqueue. */
static void node_dealloc(Node *n) {
  PyObject_GC_UnTrack(n);
  n->link = dying;
  dying = n;
  if (is_freeing) return;
  is_freeing = 1;
  while ((n = dying)) {
    dying = n->link;
    node_clear(n);
    Py_DecRef(n->name);
    node_free(n);
  }
  is_freeing = 0;
}

/* A node with empty slots, not yet seen by the collector. */
static Node *node_new(PyObject *name, Recipe *recipe, int n_in, int n_out) {
  int is_traced = is_set(py.trace);
  int n_kept = recipe->n_kept, slots = n_in + n_kept + n_out + (n_out > 1 ? n_out : 0) + is_traced;
  Node *n = node_alloc(slots);
  if (!n) return NULL;
  n->name = Py_NewRef(name);
  n->recipe = (Recipe *)Py_NewRef(recipe);
  n->hooks = n->vjp = NULL;
  n->needs = n->mark = 0;
  n->n_in = (short)n_in;
  n->n_kept = (short)n_kept;
  n->n_out = (short)n_out;
  n->waits = n->is_wanted = n->is_released = n->is_open = 0;
  n->is_traced = (unsigned char)is_traced;
  for (int i = 0; i < slots; i++) n->slot[i] = (Slot){NULL, 0};
  return n;
}

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

/* ---- what the collector sees
 *
 * Full collections would go through all of a long graph, again and again. A node leads to other nodes, to aliases that
 * nobody else has, and to leaves, so it can be part of a cycle only through a leaf that leads on, a hook, a function of
 * Python's, or a gradient that is recorded itself. Only nodes from which such is reached are seen: they are open.
 */

static int recording_backwards; /* that are going on */

static int leads_on(const Tensor *leaf) {
  return leaf->dict || leaf->hooks || leaf->base || (leaf->grad && ((Tensor *)leaf->grad)->fn);
}

static int is_open_edge(const Slot *edge) {
  if (!edge->o) return 0;
  return is_node(edge->o) ? ((Node *)edge->o)->is_open : leads_on((Tensor *)edge->o);
}

static void open_node(Node *n) {
  n->is_open |= IS_OPEN;
  track(n);
}

/* Open all nodes that a node leads to. Without memory to list them, some stay unseen. */
static void open_graph(Node *from) {
  size_t n = 1, room = 64;
  Node **todo = malloc(room * sizeof *todo);
  if (todo) todo[0] = from;
  while (todo && n) {
    Node *at = todo[--n];
    if (at->is_open & ALL_OPEN) continue;
    open_node(at);
    at->is_open |= ALL_OPEN;
    for (int k = 0; k < at->n_in; k++) {
      if (!at->slot[k].o || !is_node(at->slot[k].o)) continue;
      if (n == room) {
        Node **more = realloc(todo, 2 * room * sizeof *todo);
        if (!more) break;
        todo = more;
        room *= 2;
      }
      todo[n++] = (Node *)at->slot[k].o;
    }
  }
  free(todo);
}

/* Of a value that a tensor holds from now on: open the graphs of the tensors in it. */
static int open_held(PyObject *o, void *unused) {
  (void)unused;
  if (is_tensor(o) && ((Tensor *)o)->fn) open_graph(((Tensor *)o)->fn);
  return 0;
}

static void hold(PyObject *value) {
  if (!value) return;
  open_held(value, NULL);
  int (*traverse)(PyObject *, visitproc, void *) = NULL;
  if (PyType_GetFlags(Py_TYPE(value)) & Py_TPFLAGS_HAVE_GC) traverse = PyType_GetSlot(Py_TYPE(value), Py_tp_traverse);
  if (traverse && !is_type(value)) traverse(value, open_held, NULL);
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

/* Make a node one of a type, which is taken over. */
static void become(Node *n, PyTypeObject *type) {
  PyTypeObject *old = Py_TYPE(n);
  n->ob_base.ob_base.ob_type = type;
  Py_DecRef((PyObject *)old);
}

/* Return a node to Python, from now on of a type that is called as the node is: scripts walk graphs by these names. */
static PyObject *shown(Node *n) {
  if (Py_TYPE(n) == node_type && py.node_type) {
    PyObject *type = PyObject_Vectorcall(py.node_type, &n->name, 1, NULL);
    if (!type) return NULL;
    become(n, (PyTypeObject *)type);
  }
  return Py_NewRef(n);
}

static PyObject *node_repr(Node *n) { return PyUnicode_FromFormat("<%U object at %p>", n->name, (void *)n); }
static PyObject *node_name(Node *n, PyObject *unused) {
  (void)unused;
  return Py_NewRef(n->name);
}

static PyObject *node_next(Node *n, void *unused) {
  (void)unused;
  PyObject *all = PyTuple_New(n->n_in);
  for (int i = 0; all && i < n->n_in; i++) {
    PyObject *o = n->slot[i].o, *at;
    if (o && !is_node(o) && py.leaf_node)
      at = PyObject_Vectorcall(py.leaf_node, &o, 1, NULL);
    else
      at = o && is_node(o) ? shown((Node *)o) : newref_or_none(o);
    if (at) PyTuple_SetItem(all, i, Py_BuildValue("NL", at, n->slot[i].v));
    if (!at) Py_CLEAR(all);
  }
  return all;
}

static PyObject *node_hooks(Node *n, void *unused) {
  (void)unused;
  return newref_or_none(n->hooks);
}

static int node_set_hooks(Node *n, PyObject *value, void *unused) {
  (void)unused;
  PyObject *old = n->hooks;
  n->hooks = value && value != Py_None ? Py_NewRef(value) : NULL;
  if (n->hooks) open_node(n);
  Py_DecRef(old);
  return 0;
}

static PyObject *node_kept(Node *n, void *unused) {
  (void)unused;
  PyObject *all = PyTuple_New(n->n_kept);
  for (int k = 0; all && k < n->n_kept; k++) PyTuple_SetItem(all, k, newref_or_none(kept_of(n)[k].o));
  return all;
}

static PyObject *node_trace(Node *n, void *unused) {
  (void)unused;
  return newref_or_none(n->is_traced ? trace_of(n)->o : NULL);
}

static PyGetSetDef node_getset[] = {{"next_functions", (getter)node_next, NULL, NULL, NULL},
                                    {"_hooks", (getter)node_hooks, (setter)node_set_hooks, NULL, NULL},
                                    {"_kept", (getter)node_kept, NULL, NULL, NULL},
                                    {"_trace", (getter)node_trace, NULL, NULL, NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef node_methods[] = {{"name", FAST(node_name), METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot node_slots[] = {{Py_tp_dealloc, node_dealloc}, {Py_tp_traverse, node_traverse},
                                   {Py_tp_clear, node_clear},     {Py_tp_repr, node_repr},
                                   {Py_tp_getset, node_getset},   {Py_tp_methods, node_methods},
                                   {0, NULL}};
static PyType_Spec node_spec = {"tcdsl.core._core.Node", sizeof(Node), sizeof(Slot),
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                node_slots};

/* ---- Recipe(vjp, taken, to, passed=(), narrow=None, takes_none=False, standing=0, large=None) */

static int read_bytes(PyObject *tuple, int most, int low, int high, unsigned char *to) {
  Py_ssize_t n = tuple_length(tuple);
  if (n < 0) return -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    long long v = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (v == -1 && PyErr_Occurred()) return -1;
    if (i == most || v < low || v > high) {
      PyErr_SetString(PyExc_ValueError, "a recipe has too many values, or one that is out of range");
      return -1;
    }
    to[i] = (unsigned char)v;
  }
  return (int)n;
}

static PyObject *recipe_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"vjp", "taken", "to", "passed", "narrow", "takes_none", "standing", "large", NULL};
  PyObject *vjp, *taken, *to, *passed = NULL, *narrow = Py_None, *large = Py_None;
  int takes_none = 0;
  unsigned long long standing = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OOpKO", names, &vjp, &taken, &to, &passed, &narrow, &takes_none,
                                   &standing, &large))
    return NULL;
  Recipe *r = (Recipe *)PyType_GenericAlloc(type, 0);
  if (!r) return NULL;
  r->vjp = vjp == Py_None ? NULL : Py_NewRef(vjp);
  r->narrow = narrow == Py_None ? NULL : Py_NewRef(narrow);
  r->large = large == Py_None ? NULL : Py_NewRef(large);
  r->takes_none = takes_none;
  r->standing = standing;
  r->n_taken = read_bytes(taken, MOST_TAKEN, 0, 255, r->taken);
  r->n_to = read_bytes(to, MOST_INPUTS, -1, MOST_INPUTS - 1, (unsigned char *)r->to);
  r->n_passed = passed ? read_bytes(passed, MOST_INPUTS, 0, MOST_INPUTS - 1, (unsigned char *)r->passed) : 0;
  if (r->n_taken < 0 || r->n_to < 0 || r->n_passed < 0) {
    Py_DecRef((PyObject *)r);
    return NULL;
  }
  for (int i = 0; i < r->n_taken; i++) {
    int is_known = r->taken[i] >= TAKE_GRAD;
    for (int k = 0; !is_known && k < r->n_kept; k++) is_known = r->kept[k] == r->taken[i];
    if (!is_known) r->kept[r->n_kept++] = r->taken[i];
  }
  return (PyObject *)r;
}

static int recipe_traverse(Recipe *r, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(r));
  Py_VISIT(r->vjp);
  Py_VISIT(r->narrow);
  Py_VISIT(r->large);
  return 0;
}

static int recipe_clear(Recipe *r) {
  Py_CLEAR(r->vjp);
  Py_CLEAR(r->narrow);
  Py_CLEAR(r->large);
  Py_CLEAR(r->name);
  return 0;
}

static void recipe_dealloc(Recipe *r) {
  PyTypeObject *type = Py_TYPE(r);
  PyObject_GC_UnTrack(r);
  recipe_clear(r);
  PyObject_GC_Del(r);
  Py_DecRef((PyObject *)type);
}

/* recipe.named(name): the same, of nodes that have this name. */
static PyObject *recipe_named(Recipe *r, PyObject *name) {
  Recipe *made = (Recipe *)PyType_GenericAlloc(recipe_type, 0);
  if (!made) return NULL;
  PyObject head = made->ob_base;
  *made = *r;
  made->ob_base = head;
  if (r->vjp) Py_NewRef(r->vjp);
  if (r->narrow) Py_NewRef(r->narrow);
  if (r->large) Py_NewRef(r->large);
  made->name = Py_NewRef(name);
  return (PyObject *)made;
}

static PyMethodDef recipe_methods[] = {{"named", FAST(recipe_named), METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot recipe_slots[] = {{Py_tp_new, recipe_new},
                                     {Py_tp_methods, recipe_methods},
                                     {Py_tp_dealloc, recipe_dealloc},
                                     {Py_tp_traverse, recipe_traverse},
                                     {Py_tp_clear, recipe_clear},
                                     {0, NULL}};
static PyType_Spec recipe_spec = {"tcdsl.core._core.Recipe", sizeof(Recipe), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, recipe_slots};
