/* Sums of gradients: what arrives at a node or a leaf from all sides, and when that is all. */

static int is_own(PyObject *g) { return has_one_owner(g) && has_one_owner(((Tensor *)g)->head.storage); }

static int same_form(const Tensor *a, const Tensor *b) {
  if (a->head.form != b->head.form) return 0;
  for (int d = 0; d < rank_of(&a->head); d++)
    if (a->head.dims[d] != b->head.dims[d]) return 0;
  return 1;
}

/* Whether elements of a tensor may lie in one place, as those of an adjoint that is spread over a sum's terms do. */
static int repeats(const Tensor *t) {
  for (int d = 0; d < rank_of(&t->head); d++)
    if (t->head.dims[d] > 1 && !strides_of(t)[d]) return 1;
  return 0;
}

/* Steals g. */
static int add_up(PyObject **into, PyObject *g) {
  if (!*into) {
    *into = g;
    return 0;
  }
  int may_write = !grad_on && is_own(*into) && same_form((Tensor *)*into, (Tensor *)g) && !repeats((Tensor *)*into);
  PyObject *two[] = {*into, g}, *old = *into;
  PyObject *sum = PyObject_Vectorcall(may_write ? py.add_into : py.add, two, 2, NULL);
  Py_DecRef(g);
  if (!sum) return -1;
  *into = sum;
  Py_DecRef(old);
  return 0;
}

static PyObject *hooked(PyObject *hooks, PyObject *g, int nr) { /* steals g */
  PyObject *r = PyObject_CallFunction(py.hooked, "OOi", hooks, g, nr);
  Py_DecRef(g);
  return r;
}

/* Whether a gradient lies as its leaf does; one of a leaf with gaps is in C order. */
static int lies_as(const Tensor *leaf, const Tensor *g) {
  tc_i64 span = 1;
  int is_alike = 1;
  if (leaf->head.flags & g->head.flags & TENSOR_DENSE) return 1;
  for (int d = 0; d < rank_of(&g->head); d++) {
    span += (leaf->head.dims[d] - 1) * strides_of(leaf)[d];
    is_alike &= g->head.dims[d] == 1 || strides_of(leaf)[d] == strides_of(g)[d];
  }
  return span == leaf->head.count ? is_alike : (g->head.flags & TENSOR_DENSE) != 0;
}

/* Add to the gradient of a leaf; steals g. One that nobody else holds is kept as it is. */
static int add_to_leaf(Tensor *t, PyObject *g) {
  if (t->grad) {
    PyObject *held = Py_NewRef(t->grad), *two[] = {held, g};
    PyObject *sum = PyObject_Vectorcall(grad_on ? py.add : py.add_into, two, 2, NULL);
    Py_DecRef(held);
    Py_DecRef(g);
    if (!sum) return -1;
    PyObject *old = t->grad;
    t->grad = sum;
    Py_DecRef(old);
    return 0;
  }
  if (!is_own(g) || !lies_as(t, (Tensor *)g)) {
    PyObject *two[] = {(PyObject *)t, g}, *copy = PyObject_Vectorcall(py.laid_as, two, 2, NULL);
    Py_DecRef(g);
    if (!(g = copy)) return -1;
  }
  PyObject *old = t->grad;
  t->grad = g;
  track(t);
  Py_DecRef(old);
  return 0;
}

/* Steals g, which may be NULL. The hooks of a leaf see what has come from all sides, once. */
static int give_leaf(Run *run, Tensor *t, PyObject *g) {
  if (g && !same_form(t, (Tensor *)g)) {
    PyObject *two[] = {(PyObject *)t, g}, *fitting = PyObject_Vectorcall(py.fit, two, 2, NULL);
    Py_DecRef(g);
    if (!(g = fitting)) return -1;
  }
  Hooked *h = hooked_at(run, t);
  if (h) {
    if (g && add_up(&h->sum, g)) return -1;
    if (--h->waits > 0) return 0;
    g = h->sum;
    h->sum = NULL;
    if (g && t->hooks && !(g = hooked(t->hooks, g, 0))) return -1;
  }
  if (!g) return 0;
  if (run->inputs) return add_up(&run->found[leaf_asked(run, t)], g);
  while (is_given_to(t))
    if (wait_a_moment()) {
      Py_DecRef(g);
      return -1;
    }
  run->leaf_given = t;
  int failed = add_to_leaf(t, g);
  run->leaf_given = NULL;
  if (!failed && t->hooks) { /* those behind the sum have output -1 and get the leaf */
    PyObject *same = hooked(t->hooks, Py_NewRef((PyObject *)t), -1);
    if (!same) return -1;
    Py_DecRef(same);
  }
  return failed;
}

/* One gradient less to wait for; steals g, which may be NULL: there is none. */
static int give(Run *run, const Slot *edge, PyObject *g) {
  Node *e = node_at(edge);
  int failed = 0;
  if (!is_live(run, edge)) {
    Py_DecRef(g);
    g = NULL;
  }
  if (g && !is_tensor(g)) {
    PyErr_SetString(PyExc_TypeError, "a vjp gives Tensors, or None for no gradient");
    Py_DecRef(g);
    failed = -1;
  } else if (!e && edge->o)
    failed = give_leaf(run, (Tensor *)edge->o, g);
  else if (g)
    failed = add_up(&arrived_at(e)[edge->v].o, g);
  if (e && !--e->waits && e->is_wanted && !failed) failed = push(&run->ready, e);
  return failed;
}
