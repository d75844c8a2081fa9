/* Tensor: memory with a layout, made, viewed, tracked and freed. */

static inline void track(void *o) {
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
}

static Idle idle_tensors;

/* A tensor with room for a rank; steals it. */
static inline Tensor *with_room(Tensor *t, int nd) {
  t->head.dims = t->room;
  if (nd > INLINE_DIMS && !(t->head.dims = malloc(2 * (size_t)nd * sizeof(tc_i64)))) {
    t->head.dims = t->room;
    Py_DecRef((PyObject *)t);
    return (Tensor *)PyErr_NoMemory();
  }
  return t;
}

/* A tensor without memory. The collector sees it only once it can be part of a cycle: see track. */
static Tensor *tensor_alloc(int nd) {
  Tensor *t = take_idle(&idle_tensors);
  if (!t && !(t = PyObject_GC_New(Tensor, tensor_type))) return NULL;
  t->head.data = NULL;
  t->head.storage = NULL;
  t->head.flags = 0;
  t->fn = NULL;
  t->grad = t->base = t->hooks = t->dict = t->weak = NULL;
  t->seen = 0;
  t->out_nr = 0;
  return with_room(t, nd);
}

/* An instance of a Python subclass may have slots of its own, which its allocator clears. */
static Tensor *subclass_alloc(PyTypeObject *type, int nd) {
  if (type == tensor_type) return tensor_alloc(nd);
  Tensor *t = (Tensor *)PyType_GenericAlloc(type, 0);
  return t ? with_room(t, nd) : NULL;
}

/* The flags of what is made now, beside its own. */
static inline tc_u32 made_here(void) { return infers ? INFERENCE : 0; }

static inline tc_i64 form_of(int type_num, int nd, int device) {
  return (tc_i64)rt->lender << 48 | (tc_i64)nd << 32 | (tc_i64)device << 16 | type_num;
}

static inline tc_i64 *strides_of(const Tensor *t) { return t->head.dims + rank_of(&t->head); }

/* Count the elements, and see whether they lie in C order without gaps; not 0 with an error: they are too many. */
static int measure(Tensor *t) {
  int nd = rank_of(&t->head), dense = 1, is_empty = 0, too_many = 0;
  tc_i64 n = 1, *shape = t->head.dims, *stride = shape + nd;
  for (int d = nd - 1; d >= 0; d--) {
    dense &= shape[d] == 1 || stride[d] == n;
    is_empty |= !shape[d];
    too_many |= __builtin_mul_overflow(n, shape[d], &n);
  }
  t->head.count = is_empty ? 0 : n;
  t->head.flags = (t->head.flags & ~(tc_u32)TENSOR_DENSE) | (dense || is_empty ? TENSOR_DENSE : 0);
  if (is_empty || !too_many) return 0;
  PyErr_SetString(PyExc_RuntimeError, "numel: integer multiplication overflow: a tensor has less than 2**63 elements");
  return -1;
}

/* Whether all elements lie in the storage; else 0 with an error. Who asked for the layout may have seen another
 * storage: a thread may have set `data` since. */
static int lies_in_storage(const Tensor *t) {
  int nd = rank_of(&t->head), too_far = 0;
  const tc_i64 *shape = t->head.dims, *stride = shape + nd;
  tc_i64 size = rt->item_bytes(number_of_type(&t->head)), low = t->head.data - t->head.storage->data, high, span;
  if (!t->head.count) return 1;
  too_far |= __builtin_add_overflow(low, size, &high);
  for (int d = 0; d < nd; d++) {
    if (shape[d] == 1) continue;
    too_far |= __builtin_mul_overflow(shape[d] - 1, stride[d], &span) || __builtin_mul_overflow(span, size, &span);
    too_far |= __builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high);
  }
  if (!too_far && low >= 0 && high <= (tc_i64)t->head.storage->bytes) return 1;
  PyErr_SetString(PyExc_RuntimeError, "setStorage: a view reaches beyond the storage of its tensor");
  return 0;
}

static PyObject *tensor_fresh(int type_num, int item_bytes, int nd, const Py_ssize_t *dims, const Py_ssize_t *strides,
                              char **data) {
  Tensor *t = tensor_alloc(nd);
  if (!t) return NULL;
  tc_i64 n = 1, *shape = t->head.dims, *stride = shape + nd;
  for (int d = nd - 1; d >= 0; d--) {
    shape[d] = dims[d];
    stride[d] = n;
    if (dims[d] > 1) n *= dims[d];
  }
  t->head.form = form_of(type_num, nd, 0);
  t->head.flags = TENSOR_DENSE | made_here();
  t->head.count = n;
  for (int d = 0; d < nd; d++)
    if (!dims[d]) t->head.count = 0;
  if (strides) {
    for (int d = 0; d < nd; d++) stride[d] = strides[d] / item_bytes;
    if (measure(t)) {
      Py_DecRef((PyObject *)t);
      return NULL;
    }
    n = t->head.count ? 1 : 0;
    for (int d = 0; d < nd; d++) n += t->head.count ? (dims[d] - 1) * stride[d] : 0;
  }
  if (!(t->head.storage = rt->storage_new((size_t)n * (size_t)item_bytes))) {
    Py_DecRef((PyObject *)t);
    return NULL;
  }
  *data = t->head.data = t->head.storage->data;
  return (PyObject *)t;
}

/* A tensor over the memory of another: offset in elements. */
static Tensor *tensor_view(PyTypeObject *type, const Tensor *of, int nd, const tc_i64 *shape, const tc_i64 *stride,
                           tc_i64 offset) {
  Tensor *t = subclass_alloc(type, nd);
  if (!t) return NULL;
  for (int d = 0; d < nd; d++) {
    t->head.dims[d] = shape[d];
    t->head.dims[nd + d] = stride[d];
  }
  int type_num = number_of_type(&of->head);
  t->head.form = form_of(type_num, nd, device_of(&of->head));
  t->head.flags = of->head.flags & (TENSOR_READ_ONLY | INFERENCE);
  t->head.storage = (Storage *)Py_NewRef(of->head.storage);
  t->head.data = of->head.data + offset * rt->item_bytes(type_num);
  t->seen = t->head.storage->version;
  if (!measure(t) && lies_in_storage(t)) return t;
  Py_DecRef((PyObject *)t);
  return NULL;
}

static Tensor *alias_of(const Tensor *t) {
  int nd = rank_of(&t->head);
  Tensor *a = tensor_alloc(nd);
  if (!a) return NULL;
  for (int d = 0; d < 2 * nd; d++) a->head.dims[d] = t->head.dims[d];
  a->head.form = t->head.form;
  a->head.data = t->head.data;
  a->head.count = t->head.count;
  a->head.flags = t->head.flags & (TENSOR_READ_ONLY | TENSOR_DENSE | INFERENCE);
  a->head.storage = (Storage *)Py_NewRef(t->head.storage);
  a->seen = t->head.storage->version;
  return a;
}

/* A tensor of the form of another, in C order, whose elements nobody may read. */
static Tensor *form_alone(const Tensor *t) {
  static Storage *nothing;
  int nd = rank_of(&t->head);
  tc_i64 n = 1;
  if (!nothing && !(nothing = rt->storage_new(64))) return NULL;
  Tensor *f = tensor_alloc(nd);
  if (!f) return NULL;
  for (int d = nd - 1; d >= 0; d--) {
    f->head.dims[d] = t->head.dims[d];
    f->head.dims[nd + d] = n;
    if (t->head.dims[d] > 1) n *= t->head.dims[d];
  }
  f->head.form = t->head.form;
  f->head.flags = TENSOR_DENSE | TENSOR_READ_ONLY;
  f->head.count = t->head.count;
  f->head.storage = (Storage *)Py_NewRef(nothing);
  f->head.data = nothing->data;
  return f;
}

static int tensor_traverse(Tensor *t, visitproc visit, void *arg) {
  if (Py_TYPE(t) != tensor_type) Py_VISIT(Py_TYPE(t));
  Py_VISIT(t->fn);
  Py_VISIT(t->grad);
  Py_VISIT(t->base);
  Py_VISIT(t->hooks);
  Py_VISIT(t->dict);
  return 0;
}

/* Let go of a gradient, of its own, and so on: a chain of any length, without recursion. */
static void free_grads(PyObject *g) {
  while (g) {
    PyObject *next = NULL;
    if (Py_TYPE(g) == tensor_type && has_one_owner(g)) {
      next = ((Tensor *)g)->grad;
      ((Tensor *)g)->grad = NULL;
    }
    Py_DecRef(g);
    g = next;
  }
}

static int tensor_clear(Tensor *t) {
  PyObject *grad = t->grad;
  t->grad = NULL;
  Py_CLEAR(t->fn);
  free_grads(grad);
  Py_CLEAR(t->base);
  Py_CLEAR(t->hooks);
  Py_CLEAR(t->dict);
  return 0;
}

static void tensor_dealloc(Tensor *t) {
  PyTypeObject *type = Py_TYPE(t);
  PyObject_GC_UnTrack(t);
  if (t->weak) PyObject_ClearWeakRefs((PyObject *)t);
  if (t->fn || t->grad || t->base || t->hooks || t->dict) tensor_clear(t);
  Py_DecRef((PyObject *)t->head.storage);
  if (t->head.dims != t->room) free(t->head.dims);
  if (type == tensor_type && keep_idle(&idle_tensors, t)) return;
  PyObject_GC_Del(t);
  Py_DecRef((PyObject *)type);
}

/* In PyTorch's words, of a view that nothing was recorded of: how it was changed, while recording, is not told. */
static void refuse_unrecorded(const char *is_modified) {
  PyErr_Format(PyExc_RuntimeError,
               "A view was created in no_grad mode and %s modified inplace with grad mode enabled. Given that "
               "this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
               "both the view and the inplace either both inside the no_grad block (if you don't want the inplace "
               "to be tracked) or both outside (if you want the inplace to be tracked).",
               is_modified);
}

/* Whether calls on this tensor are recorded. A view learns here that its base was written. */
static int renew(Tensor *t) {
  if (t->head.flags & VIEW_UNRECORDED) { /* it is a function of nothing: while nothing is recorded that is all the same */
    if (grad_on) refuse_unrecorded("its base or another view of its base has been");
    return grad_on ? -1 : 0;
  }
  PyObject *arg = (PyObject *)t, *done = PyObject_Vectorcall(py.renew, &arg, 1, NULL);
  Py_DecRef(done);
  return done ? 0 : -1;
}

static inline int is_tracked(Tensor *t) {
  if (t->base && t->seen != t->head.storage->version && ((Tensor *)t->base)->head.flags & TENSOR_TRACKED &&
      renew(t))
    return -1;
  return t->head.flags & TENSOR_TRACKED; /* 1 */
}

/* What keeps the gradient by a tensor goes on with it, to what made it last. */
static void remade(Tensor *t, Node *before) {
  PyObject *args[] = {(PyObject *)t, (PyObject *)before}, *done = PyObject_Vectorcall(py.remade, args, 2, NULL);
  if (!done) PyErr_WriteUnraisable((PyObject *)t);
  Py_DecRef(done);
}

/* Give a tensor what made it; steals the reference. */
static void set_fn(Tensor *t, Node *fn, int out_nr) {
  Node *old = t->fn;
  t->fn = fn;
  t->out_nr = out_nr;
  t->seen = t->head.storage->version;
  if (fn) {
    t->head.flags |= TENSOR_TRACKED;
    track(t);
  } else if (!(t->head.flags & LEAF_REQUIRES))
    t->head.flags &= ~(tc_u32)TENSOR_TRACKED;
  if (old && old->hooks && fn && fn != old && t->dict) remade(t, old);
  Py_DecRef((PyObject *)old);
}
