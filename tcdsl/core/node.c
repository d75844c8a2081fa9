/* Node: what is recorded of a call. Nodes are freed without recursion, whatever their number. */

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

enum { IDLE_SLOTS = 8 };
static Idle idle_nodes[IDLE_SLOTS + 1]; /* by how many slots they have */

/* The memory of a node: whatever it holds is its maker's to fill. */
static Node *node_alloc(int slots) {
  Node *n = slots <= IDLE_SLOTS ? take_idle(idle_nodes + slots) : NULL;
  return n ? n : PyObject_GC_NewVar(Node, node_type, slots);
}

static void node_free(Node *n) {
  PyTypeObject *type = Py_TYPE(n);
  Py_ssize_t slots = n->ob_base.ob_size;
  if (type == node_type && slots <= IDLE_SLOTS && keep_idle(idle_nodes + slots, n)) return;
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

/* ---- what Python sees */

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
