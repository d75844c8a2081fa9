/* The nodes of a backward: all that lead to its roots, each with how many gradients it waits for.
 *
 * A node is held by one backward at a time: its mark says by which. One that meets a node of another thread's gives
 * back its own and waits; so does one that would add to the gradient of a leaf that another thread adds to.
 */

typedef struct {
  Node **at;
  size_t n, room;
} List;

typedef struct {
  Tensor *leaf;  /* which has hooks */
  int waits;     /* for so many gradients more */
  PyObject *sum; /* of those that have arrived, or NULL */
} Hooked;

typedef struct Run {
  tc_u64 nr;
  struct Run *around; /* begun before this one and still going on, of any thread */
  void *thread;
  const Tensor *leaf_given; /* to whose gradient it adds now */
  List all, ready;
  int is_kept;             /* whether nodes keep what they have for another backward */
  int is_recorded;         /* whether it counts among recording_backwards */
  PyObject *const *inputs; /* NULL: gradients go to leaves */
  PyObject **found;        /* of each of the inputs, its gradient or NULL */
  int n_inputs;
  Hooked *hooked; /* in no order: leaves with hooks are few */
  int n_hooked;
  Tensor **leaf; /* a table by address of the inputs that are leaves, with their numbers */
  int *leaf_nr, room;
} Run;

static tc_u64 last_run;
static Run *runs; /* the latest; a forked child has its own, whatever its parent's other threads were at */

/* Let other threads run for a moment; not 0 with what a signal's handler raised. */
static int wait_a_moment(void) {
  struct timespec moment = {0, 20000};
  PyThreadState *state = PyEval_SaveThread();
  nanosleep(&moment, NULL);
  PyEval_RestoreThread(state);
  return PyErr_CheckSignals();
}

/* In a forked child: only this thread's go on. */
static void forget_runs(void) {
  for (Run **at = &runs; *at;)
    if ((*at)->thread == &grad_on)
      at = &(*at)->around;
    else {
      recording_backwards -= (*at)->is_recorded;
      *at = (*at)->around;
    }
}

static const Run *run_of(tc_u64 mark) {
  const Run *r = runs;
  while (r && r->nr != mark) r = r->around;
  return r;
}

/* Whether another thread adds to the gradient of a leaf. */
static int is_given_to(const Tensor *t) {
  for (const Run *r = runs; r; r = r->around)
    if (r->leaf_given == t && r->thread != &grad_on) return 1;
  return 0;
}

static int push(List *l, Node *n) {
  if (l->n == l->room) {
    size_t room = l->room ? 2 * l->room : 64;
    Node **at = realloc(l->at, room * sizeof *at);
    if (!at) {
      PyErr_NoMemory();
      return -1;
    }
    l->at = at;
    l->room = room;
  }
  l->at[l->n++] = n;
  return 0;
}

static inline Node *node_at(const Slot *edge) {
  return edge->o && is_node(edge->o) ? (Node *)edge->o : NULL;
}

enum { FAILED = -1, IS_HELD = 1 }; /* held: by another thread's backward */

static int visit(Run *run, Node *n) {
  if (n->mark == run->nr) return 0;
  const Run *holder = n->mark ? run_of(n->mark) : NULL;
  if (holder && holder->thread != run->thread) return IS_HELD;
  if (holder) {
    PyErr_SetString(PyExc_RuntimeError,
                    "backward was called in a backward that is going through the same graph; let that end first");
    return FAILED;
  }
  if (push(&run->all, n)) return -1;
  Py_IncRef((PyObject *)n);
  for (int r = 0; n->mark && r < n->n_out; r++) Py_CLEAR(arrived_at(n)[r].o); /* of a parent process */
  n->mark = run->nr;
  n->waits = 0;
  n->is_wanted = 1;
  return 0;
}

static int list_all(Run *run, PyObject *const *roots, int n_roots) {
  int no = 0;
  for (int i = 0; i < n_roots && !no; i++) {
    Tensor *t = (Tensor *)roots[i];
    no = t->fn ? visit(run, t->fn) : 0;
  }
  for (size_t i = 0; i < run->all.n && !no; i++) {
    Node *n = run->all.at[i];
    for (int k = 0; k < n->n_in && !no; k++) {
      Node *e = node_at(&n->slot[k]);
      no = e ? visit(run, e) : 0;
    }
  }
  return no;
}

/* Give back all nodes: whatever happened, they are as they were, but for what they have given away. */
static void give_back(Run *run) {
  for (size_t i = 0; i < run->all.n; i++) {
    Node *n = run->all.at[i];
    for (int r = 0; r < n->n_out; r++) Py_CLEAR(arrived_at(n)[r].o);
    n->mark = 0;
  }
  while (run->all.n) Py_DecRef((PyObject *)run->all.at[--run->all.n]);
}

/* ---- which inputs are asked for */

static int place_of(const Run *run, const Tensor *t) {
  size_t i = ((size_t)t >> 4) * 0x9e3779b97f4a7c15u >> 20;
  while (run->leaf[i & (size_t)(run->room - 1)] && run->leaf[i & (size_t)(run->room - 1)] != t) i++;
  return (int)(i & (size_t)(run->room - 1));
}

/* The number of the input that is this leaf, or -1. */
static int leaf_asked(const Run *run, const Tensor *t) {
  int p = place_of(run, t);
  return run->leaf[p] ? run->leaf_nr[p] : -1;
}

static inline int is_live(const Run *run, const Slot *edge) {
  Node *n = node_at(edge);
  if (n) return n->is_wanted;
  return edge->o && (!run->inputs || leaf_asked(run, (Tensor *)edge->o) >= 0);
}

enum { RUNS = 1, IS_ASKED = 2 }; /* is_wanted, of a node */

/* Leave wanted only the nodes that lead to an input. */
static int find_wanted(Run *run) {
  run->room = 16;
  while (run->room < 2 * run->n_inputs) run->room *= 2;
  run->leaf = calloc((size_t)run->room, sizeof *run->leaf);
  run->leaf_nr = calloc((size_t)run->room, sizeof *run->leaf_nr);
  if (!run->leaf || !run->leaf_nr) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < run->all.n; i++) run->all.at[i]->is_wanted = 0;
  for (int i = 0; i < run->n_inputs; i++) {
    Tensor *t = (Tensor *)run->inputs[i];
    if (t->fn) {
      if (t->fn->mark == run->nr) t->fn->is_wanted |= IS_ASKED;
      continue;
    }
    int p = place_of(run, t);
    if (run->leaf[p]) continue;
    run->leaf[p] = t;
    run->leaf_nr[p] = i;
  }
  List order = {0};
  int failed = 0;
  for (size_t i = 0; i < run->all.n && !failed; i++)
    if (!run->all.at[i]->waits) failed = push(&order, run->all.at[i]);
  for (size_t i = 0; i < order.n && !failed; i++) {
    Node *n = order.at[i];
    for (int k = 0; k < n->n_in && !failed; k++) {
      Node *e = node_at(&n->slot[k]);
      if (e && !--e->waits) failed = push(&order, e);
    }
  }
  for (size_t i = order.n; i-- && !failed;) {
    Node *n = order.at[i];
    for (int k = 0; k < n->n_in; k++)
      if (is_live(run, &n->slot[k])) n->is_wanted |= RUNS;
  }
  free(order.at);
  return failed;
}

/* How many gradients each node waits for, of nodes that are wanted. */
static void count_waits(Run *run) {
  for (size_t i = 0; i < run->all.n; i++) run->all.at[i]->waits = 0;
  for (size_t i = 0; i < run->all.n; i++) {
    Node *n = run->all.at[i];
    for (int k = 0; n->is_wanted & RUNS && k < n->n_in; k++) {
      Node *e = node_at(&n->slot[k]);
      if (e) e->waits++;
    }
  }
}

static void end_run(Run *run) {
  Run **at = &runs;
  give_back(run);
  while (*at != run) at = &(*at)->around;
  *at = run->around;
  free(run->all.at);
  free(run->ready.at);
  free(run->leaf);
  free(run->leaf_nr);
  while (run->n_hooked) {
    Hooked *h = run->hooked + --run->n_hooked;
    Py_DecRef(h->sum);
    Py_DecRef((PyObject *)h->leaf);
  }
  free(run->hooked);
}

/* ---- leaves with hooks */

static Hooked *hooked_at(const Run *run, const Tensor *t) {
  for (int i = 0; i < run->n_hooked; i++)
    if (run->hooked[i].leaf == t) return run->hooked + i;
  return NULL;
}

/* Count one gradient more that will arrive at a leaf with hooks. */
static int expect(Run *run, Tensor *t) {
  Hooked *h = hooked_at(run, t);
  if (!h) {
    Hooked *more = realloc(run->hooked, (size_t)(run->n_hooked + 1) * sizeof *more);
    if (!more) {
      PyErr_NoMemory();
      return -1;
    }
    run->hooked = more;
    h = more + run->n_hooked++;
    *h = (Hooked){(Tensor *)Py_NewRef(t), 0, NULL};
  }
  h->waits++;
  return 0;
}

/* Count the gradients that will arrive at leaves with hooks. */
static int expect_all(Run *run, PyObject *const *roots, int n_roots) {
  int failed = 0;
  for (int i = 0; i < n_roots && !failed; i++) {
    Tensor *t = (Tensor *)roots[i];
    if (!t->fn && t->hooks) failed = expect(run, t);
  }
  for (size_t i = 0; i < run->all.n; i++) {
    Node *n = run->all.at[i];
    for (int k = 0; n->is_wanted & RUNS && k < n->n_in && !failed; k++) {
      PyObject *o = n->slot[k].o;
      if (o && !is_node(o) && ((Tensor *)o)->hooks) failed = expect(run, (Tensor *)o);
    }
  }
  return failed;
}
