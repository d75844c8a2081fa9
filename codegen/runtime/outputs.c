/* Outputs of a call: which may be written where they lie, and fresh ones, of NumPy or of a lender. */

/* Whether output r, an operand, lies apart from operands [first, last), but for the very views the entry allows. */
static int is_apart(const Entry *e, char *const *data, int r, int first, int last) {
  const Operand *o = &e->operand[r];
  for (int i = first; i < last; i++) {
    const Operand *x = &e->operand[i];
    if (x->pass != BY_ADDRESS || data[i] + x->high <= data[r] + o->low || data[r] + o->high <= data[i] + x->low ||
        x->low == x->high || o->low == o->high)
      continue;
    if (i >= e->n_params || data[i] != data[r] || !e->inplace[(r - e->n_params) * e->n_params + i]) return 0;
  }
  return 1;
}

/* Whether every output may be written where it lies: apart from all inputs and from other outputs. */
static int may_write(const Entry *e, char *const *data) {
  for (int r = e->n_params; r < e->n_params + e->n_returns; r++)
    if (!is_apart(e, data, r, 0, r)) return 0;
  return 1;
}

static PyObject *fresh_array(const Operand *o, char **data) {
  Storage *s = storage_new((size_t)(o->high - o->low));
  if (!s) return NULL;
  *data = storage_data(s) - o->low;
  PyObject *a = numpy.new_from_descr(
      numpy.array_type, (Descr *)Py_NewRef(o->descr), o->nd, o->dims, o->c_order ? NULL : o->strides, *data,
      ARRAY_WRITEABLE | ARRAY_ALIGNED | (o->c_order ? ARRAY_C_CONTIGUOUS : 0), NULL);
  if (!a) {
    Py_DecRef(&s->ob_base);
    return NULL;
  }
  if (numpy.set_base((Array *)a, &s->ob_base)) {
    Py_DecRef(a);
    return NULL;
  }
  return a;
}

/* A fresh output that another library's array holds. */
typedef struct {
  Managed managed;
  Storage *memory;
  tc_i64 dims[];
} Handed;

static void take_back(Managed *m) { /* called by whoever drops the last array, with or without the GIL */
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DecRef(&((Handed *)m->context)->memory->ob_base);
    PyGILState_Release(state);
  } /* else at the end of the process, whose memory goes with it */
  free(m->context);
}

/* A fresh output of our memory. */
static PyObject *handed(int lender, const Operand *o, char **data) {
  Handed *h = malloc(sizeof *h + 2 * (size_t)o->nd * sizeof *h->dims);
  if (!h) return PyErr_NoMemory();
  if (!(h->memory = storage_new((size_t)(o->high - o->low)))) {
    free(h);
    return NULL;
  }
  *data = storage_data(h->memory) - o->low;
  for (int d = 0; d < o->nd; d++) {
    h->dims[d] = o->dims[d];
    h->dims[o->nd + d] = o->strides[d] / o->item_bytes;
  }
  DLTensor t = {*data, DL_CPU, 0, o->nd, type_of(o->descr, o->item_bytes), h->dims, h->dims + o->nd, 0};
  h->managed = (Managed){EXCHANGE_MAJOR, 0, h, take_back, 0, t};
  void *made = NULL;
  if (!lenders[lender - 1].api->object_of(&h->managed, &made)) return made;
  if (!PyErr_Occurred()) PyErr_SetString(internal_error, "an array library took no memory and said nothing");
  return NULL; /* the memory is the library's, whatever it did with it */
}

/* Ask a lender what its fresh outputs are like. While it answers, another thread may ask for the same entry: so
 * models are set all at once. */
static int take_models(Entry *e, int lender) {
  PyObject *model[MAX_OPERANDS];
  for (int r = 0; r < e->n_returns; r++) {
    const Operand *o = &e->operand[e->n_params + r];
    PyObject *shape = PyTuple_New(o->nd);
    model[r] = NULL;
    for (int d = 0; shape && d < o->nd; d++) PyTuple_SetItem(shape, d, PyLong_FromLongLong(o->dims[d]));
    if (shape && !PyErr_Occurred())
      model[r] = o->c_order ? PyObject_CallFunction(lenders[lender - 1].model, "OO", o->descr, shape)
                            : Py_NewRef(Py_None);
    Py_DecRef(shape);
    if (!model[r]) {
      while (r--) Py_DecRef(model[r]);
      return -1;
    }
  }
  for (int r = 0; r < e->n_returns; r++) {
    PyObject *old = e->model[r];
    e->model[r] = model[r];
    model[r] = old;
  }
  e->modelled = lender;
  for (int r = 0; r < e->n_returns; r++) Py_DecRef(model[r]); /* may run Python */
  return 0;
}

/* A fresh output r that a lender makes, or that holds our memory where it says so. */
static PyObject *fresh_lent(int lender, Entry *e, int r, char **data) {
  const Operand *o = &e->operand[e->n_params + r];
  if (lender == tensor_lender)
    return tensors->fresh(o->type_num, o->item_bytes, o->nd, o->dims, o->c_order ? NULL : o->strides, data);
  if (lenders[lender - 1].model == Py_None) return handed(lender, o, data);
  int is_known = e->modelled && lenders[e->modelled - 1].model == lenders[lender - 1].model;
  if (!is_known && take_models(e, lender)) return NULL;
  if (e->model[r] == Py_None) return handed(lender, o, data);
  PyObject *model = Py_NewRef(e->model[r]); /* another call may take others while the library runs */
  const tc_bridge *bridge = lenders[lender - 1].bridge;
  DLTensor t;
  PyObject *made = bridge ? bridge->make(model, &t) : PyObject_Vectorcall(lenders[lender - 1].make, &model, 1, NULL);
  Py_DecRef(model);
  View v;
  if (!made) return NULL;
  if (!(bridge ? located(lender, &t, &v) : memory_of(lender, made, &v)) || !fits_view(o, &v)) {
    PyErr_SetString(internal_error, "an array library made an output of another form");
    Py_DecRef(made);
    return NULL;
  }
  *data = v.data;
  return made;
}
