/* Backward: gradients of tensors by the leaves they came from, without recursion: nodes that wait for none run. */

/* ---- one node */

static const char was_freed[] =
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward.";

/* Raise if a kept value, of what `fn` made as its output nr (NULL: nothing did), was written since. */
static int was_written(const Slot *kept, const Node *fn, int nr) {
  if (((Tensor *)kept->o)->head.storage->version == kept->v) return 0;
  PyObject *name = fn ? fn->name : Py_None;
  if (!py.written) {
    PyErr_SetString(PyExc_RuntimeError, "what a gradient needs was modified by an inplace operation");
    return -1;
  }
  PyObject *said = PyObject_CallFunction(py.written, "OOiL", kept->o, name, nr, (long long)kept->v);
  if (said) PyErr_Format(PyExc_RuntimeError, "%U", said);
  Py_DecRef(said);
  return -1;
}

/* What hooks give for what they packed, as a function of what it was made of; a new reference. */
static PyObject *unpacked(Node *n, PyObject *packed, unsigned char what) {
  const Slot *edge = what < TAKE_FORM ? &n->slot[what] : NULL;
  Node *fn = edge ? node_at(edge) : n;
  int is_leaf = grad_on && edge && edge->o && !fn;
  PyObject *two[] = {packed, is_leaf ? edge->o : Py_None};
  PyObject *tensor = PyObject_Vectorcall(py.unpack, two, 2, NULL);
  if (!tensor || is_leaf || !grad_on || !fn) return tensor;
  Tensor *again = alias_of((Tensor *)tensor);
  Py_DecRef(tensor);
  if (again) set_fn(again, (Node *)Py_NewRef(fn), edge ? (int)edge->v : what - TAKE_OUTPUT);
  return (PyObject *)again;
}

/* Let hooks of the node see gradients, those of its inputs if there are any in `to`, and put others in their place. */
static int pass_around(Node *n, PyObject **grads, PyObject **to) {
  PyObject *out = PyTuple_New(n->n_out), *in = to ? PyTuple_New(n->n_in) : Py_NewRef(Py_None), *made = NULL;
  for (int r = 0; out && r < n->n_out; r++) PyTuple_SetItem(out, r, newref_or_none(grads[r]));
  for (int k = 0; in && to && k < n->n_in; k++) PyTuple_SetItem(in, k, newref_or_none(to[k]));
  if (in && out) made = PyObject_CallFunction(py.around, "OOO", n->hooks, out, in);
  Py_DecRef(in);
  Py_DecRef(out);
  int count = to ? n->n_in : n->n_out;
  PyObject **at = to ? to : grads;
  for (int i = 0; made && made != Py_None && i < count; i++) { /* a tuple of so many: Python has seen to it */
    PyObject *old = at[i], *now = PyTuple_GetItem(made, i);
    at[i] = now == Py_None ? NULL : Py_NewRef(now);
    Py_DecRef(old);
  }
  Py_DecRef(made);
  return made ? 0 : -1;
}

/* A value for vjp: a new reference. */
static PyObject *taken(Node *n, const Recipe *recipe, unsigned char what, tc_u64 needs, PyObject *const *grads) {
  if (what == TAKE_NEEDS) return PyLong_FromUnsignedLongLong(needs);
  if (what >= TAKE_GRAD) {
    int r = what - TAKE_GRAD;
    if (recipe->takes_none) return newref_or_none(grads[r]);
    return grads[r] ? Py_NewRef(grads[r]) : PyObject_Vectorcall(py.zeros, &forms_of(n)[r].o, 1, NULL);
  }
  int k = 0;
  while (k < n->n_kept && n->recipe->kept[k] != what) k++;
  if (k == n->n_kept && what >= TAKE_FORM && what < TAKE_OUTPUT) { /* of fewer gradients; all of it may be kept */
    for (k = 0; k < n->n_kept && n->recipe->kept[k] != what - TAKE_FORM;) k++;
    if (k < n->n_kept && is_tensor(kept_of(n)[k].o)) return (PyObject *)form_alone((Tensor *)kept_of(n)[k].o);
    if (k < n->n_kept && is_packed(kept_of(n)[k].o)) {
      PyObject *whole = unpacked(n, kept_of(n)[k].o, (unsigned char)(what - TAKE_FORM));
      PyObject *form = whole ? (PyObject *)form_alone((Tensor *)whole) : NULL;
      Py_DecRef(whole);
      return form;
    }
  }
  if (k == n->n_kept) {
    PyErr_SetString(PyExc_RuntimeError, "a recipe of fewer gradients takes more values");
    return NULL;
  }
  Slot *kept = kept_of(n) + k;
  if (is_packed(kept->o)) return unpacked(n, kept->o, what);
  Node *fn = what >= TAKE_OUTPUT ? n : what < TAKE_FORM ? node_at(&n->slot[what]) : NULL;
  int nr = what >= TAKE_OUTPUT ? what - TAKE_OUTPUT : fn ? (int)n->slot[what].v : 0;
  if (is_whole(what) && is_tensor(kept->o) && was_written(kept, fn, nr)) return NULL;
  if (!grad_on || !fn || !is_tensor(kept->o)) return Py_NewRef(kept->o);
  Tensor *again = alias_of((Tensor *)kept->o); /* as a function of what it was made of */
  if (again) set_fn(again, (Node *)Py_NewRef(fn), nr);
  return (PyObject *)again;
}

/* Give back the memory that was kept. What keeps forms and numbers only may be gone through again. */
static void forget_kept(Node *n) {
  for (int k = 0; k < n->n_kept; k++) {
    unsigned char what = n->recipe->kept[k];
    PyObject *o = kept_of(n)[k].o;
    if (!is_whole(what) || !o) continue;
    if (!is_tensor(o) && !is_packed(o) && !(what < TAKE_FORM && n->recipe->standing >> what & 1)) continue;
    Py_CLEAR(kept_of(n)[k].o);
    n->is_released = 1;
  }
}

/* The gradients of a node's inputs, new references, each NULL at first. */
static int pull(Run *run, Node *n, PyObject **grads, PyObject **to) {
  tc_u64 needs = n->needs;
  for (int k = 0; run->inputs && k < n->n_in; k++)
    if (!is_live(run, &n->slot[k])) needs &= ~((tc_u64)1 << k);
  if (n->is_released) {
    PyErr_SetString(PyExc_RuntimeError, was_freed);
    return -1;
  }
  Recipe *r = (Recipe *)Py_NewRef(n->recipe);
  if (needs != n->needs && r->narrow) {
    PyObject *fewer = PyObject_CallFunction(r->narrow, "K", (unsigned long long)needs);
    Py_DecRef((PyObject *)r);
    if (!(r = (Recipe *)fewer)) return -1;
  }
  PyObject *values[MOST_TAKEN + 1], **args = values + 1, *vjp = n->vjp ? n->vjp : r->vjp, *result = NULL;
  int n_args = 0, failed = 0;
  while (vjp && n_args < r->n_taken && !failed) {
    args[n_args] = taken(n, r, r->taken[n_args], needs, grads);
    failed = !args[n_args];
    n_args += !failed;
  }
  if (vjp && !failed) {
    result = PyObject_Vectorcall(vjp, args, (size_t)n_args | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    failed = !result;
  }
  while (n_args) Py_DecRef(args[--n_args]);
  if (!failed && !run->is_kept) forget_kept(n);
  int is_tuple = result && is_tuple_type((PyObject *)Py_TYPE(result));
  if (is_tuple && PyTuple_Size(result) != r->n_to) {
    PyErr_Format(PyExc_RuntimeError, "%U returned an incorrect number of gradients (expected %d, got %zd)", n->name,
                 r->n_to, PyTuple_Size(result));
    failed = 1;
  }
  for (int i = 0; result && !failed && i < r->n_to; i++) {
    PyObject *g = is_tuple ? PyTuple_GetItem(result, i) : i ? Py_None : result;
    int k = r->to[i];
    if (k >= 0 && k < n->n_in && g != Py_None && needs >> k & 1) to[k] = Py_NewRef(g);
  }
  Py_DecRef(result); /* so that a leaf may keep a gradient that nobody else holds */
  for (int i = 0; !failed && i < r->n_passed; i++)
    if (needs >> r->passed[i] & 1 && grads[0]) to[(int)r->passed[i]] = Py_NewRef(grads[0]);
  Py_DecRef((PyObject *)r);
  return failed ? -1 : 0;
}

/* Let Python look at the gradients of a node's inputs, or at the error of which none came, which stays. */
static int judged(Node *n, PyObject *const *to, int failed) {
  PyObject *type, *value, *trace, *all = failed ? Py_NewRef(Py_None) : PyTuple_New(n->n_in);
  PyErr_Fetch(&type, &value, &trace);
  for (int k = 0; all && !failed && k < n->n_in; k++) PyTuple_SetItem(all, k, newref_or_none(to[k]));
  PyObject *judge = Py_NewRef(py.judge), *done = all ? PyObject_CallFunction(judge, "OO", n, all) : NULL;
  if (type) PyErr_Restore(type, value, trace); /* in the place of another */
  Py_DecRef(judge);
  Py_DecRef(all);
  Py_DecRef(done);
  return done && !failed ? 0 : -1;
}

static int run_node(Run *run, Node *n) {
  PyObject *grads[MOST_INPUTS], *to[MOST_INPUTS];
  int failed = 0, has_any = 0;
  for (int r = 0; r < n->n_out; r++) {
    grads[r] = arrived_at(n)[r].o;
    arrived_at(n)[r].o = NULL;
  }
  for (int r = 0; r < n->n_out && !failed; r++) {
    if (grads[r] && n->hooks) failed = !(grads[r] = hooked(n->hooks, grads[r], r));
    has_any |= grads[r] != NULL;
  }
  if (!failed && has_any && n->hooks) failed = pass_around(n, grads, NULL);
  for (int i = 0; n->is_wanted & IS_ASKED && i < run->n_inputs && !failed; i++) {
    Tensor *t = (Tensor *)run->inputs[i];
    if (t->fn == n && grads[t->out_nr] && !run->found[i]) run->found[i] = Py_NewRef(grads[t->out_nr]);
  }
  for (int k = 0; k < n->n_in; k++) to[k] = NULL;
  if (!failed && has_any && n->is_wanted & RUNS) {
    failed = pull(run, n, grads, to);
    if (!failed && n->hooks) failed = pass_around(n, grads, to);
    if (is_set(py.judge)) failed = judged(n, to, failed);
  }
  for (int r = 0; r < n->n_out; r++) Py_DecRef(grads[r]);
  for (int k = 0; k < n->n_in && n->is_wanted & RUNS; k++) {
    if (failed)
      Py_DecRef(to[k]);
    else
      failed = give(run, &n->slot[k], to[k]);
  }
  return failed;
}

static int run_all(Run *run, PyObject *const *roots, PyObject *const *grads, int n_roots) {
  int no;
  while ((no = list_all(run, roots, n_roots)) == IS_HELD) {
    give_back(run);
    if (wait_a_moment()) return -1;
  }
  if (no) return -1;
  for (size_t i = 0; grad_on && i < run->all.n; i++) open_node(run->all.at[i]); /* leaves may get what leads to them */
  count_waits(run);
  if (run->inputs) {
    if (find_wanted(run)) return -1;
    count_waits(run);
  }
  if (expect_all(run, roots, n_roots)) return -1;
  for (int i = 0; i < n_roots; i++) {
    Tensor *t = (Tensor *)roots[i];
    Slot edge = {t->fn ? (PyObject *)t->fn : (PyObject *)t, t->out_nr};
    if (!is_live(run, &edge)) continue;
    PyObject *g = Py_NewRef(grads[i]);
    if (t->fn ? add_up(&arrived_at(t->fn)[t->out_nr].o, g) : give_leaf(run, t, g)) return -1;
  }
  for (size_t i = run->all.n; i--;) {
    Node *n = run->all.at[i];
    if (!n->waits && n->is_wanted && push(&run->ready, n)) return -1;
  }
  while (run->ready.n)
    if (run_node(run, run->ready.at[--run->ready.n])) return -1;
  return 0;
}

/* The gradient of a root that came without: 1 of a single element. */
static PyObject *seed_of(Tensor *t, PyObject *given) {
  if (given != Py_None) return Py_NewRef(given);
  PyObject *arg = (PyObject *)t;
  if (t->head.count == 1) return PyObject_Vectorcall(py.one, &arg, 1, NULL);
  PyErr_SetString(PyExc_RuntimeError, "grad can be implicitly created only for scalar outputs");
  return NULL;
}

static PyObject *no_root(int i) {
  return PyErr_Format(PyExc_RuntimeError, "element %d of tensors does not require grad and does not have a grad_fn", i);
}

/* Gradients of roots; where inputs are given, those of them, as a tuple with None for none. */
static PyObject *backward(PyObject *const *roots, PyObject *const *given, int n_roots, PyObject *inputs, int keeps,
                          int creates) {
  PyObject **grads, *result = NULL, **listed = NULL;
  Run run = {.nr = ++last_run, .thread = &grad_on, .is_kept = keeps};
  int n = 0, failed = 0, saved = grad_on;
  for (int i = 0; i < n_roots; i++) {
    int yes = is_tensor(roots[i]) ? is_tracked((Tensor *)roots[i]) : 0;
    if (yes < 0) return NULL;
    if (!yes) return no_root(i);
  }
  if (inputs) {
    run.n_inputs = (int)PyTuple_Size(inputs);
    listed = calloc(2 * (size_t)run.n_inputs + 1, sizeof *listed);
    if (!listed) return PyErr_NoMemory();
    for (int i = 0; i < run.n_inputs; i++) listed[i] = PyTuple_GetItem(inputs, i);
    run.inputs = listed;
    run.found = listed + run.n_inputs;
  }
  if (!(grads = malloc(((size_t)n_roots + 1) * sizeof *grads))) {
    free(listed);
    return PyErr_NoMemory();
  }
  run.around = runs;
  runs = &run;
  grad_on = 0;
  while (n < n_roots && !failed) {
    grads[n] = seed_of((Tensor *)roots[n], given[n]);
    failed = !grads[n];
    n += !failed;
  }
  grad_on = creates;
  run.is_recorded = creates != 0;
  recording_backwards += run.is_recorded;
  failed = failed || run_all(&run, roots, grads, n_roots);
  recording_backwards -= run.is_recorded;
  grad_on = saved;
  while (n) Py_DecRef(grads[--n]);
  free(grads);
  end_run(&run);
  if (!failed && !inputs) result = Py_NewRef(Py_None);
  if (!failed && inputs && (result = PyTuple_New(run.n_inputs)))
    for (int i = 0; i < run.n_inputs; i++) {
      int first = 0; /* one that is asked for twice is found once */
      while (listed[first] != listed[i]) first++;
      PyTuple_SetItem(result, i, newref_or_none(run.found[first]));
    }
  for (int i = 0; inputs && i < run.n_inputs; i++) Py_DecRef(run.found[i]);
  free(listed);
  return result;
}
