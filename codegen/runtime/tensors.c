/* Calls on tensors of our own, by C functions that their library is handed. */

/* Have output r, which overlaps an input, written to a block that holds what it holds. NULL: it has gaps, or, with an
 * error set, memory ended. */
static Storage *put_aside(const Entry *e, int r, char **data) {
  const Operand *o = &e->operand[e->n_params + r];
  Py_ssize_t bytes = o->item_bytes;
  for (int d = 0; d < o->nd; d++) bytes *= o->dims[d];
  if (bytes != o->high - o->low) return NULL;
  Storage *block = storage_new((size_t)bytes);
  if (!block) return NULL;
  memcpy(storage_data(block), *data + o->low, (size_t)bytes);
  *data = storage_data(block) - o->low;
  return block;
}

/* Run a call whose form is known where some output overlaps an input and may not: as slow does, by a copy. at: as
 * key_of leaves it. NULL without an error: it is slow's. */
static PyObject *run_aside(Launcher *l, Entry *e, PyObject *const *in, PyObject *const *out, Places *at) {
  Storage *block[MAX_OPERANDS], *memory[MAX_OPERANDS];
  char **data = at->data + e->n_params, *place[MAX_OPERANDS];
  int n = 0, is_slows = 0;
  for (; n < e->n_returns && !is_slows; n++) {
    int r = e->n_params + n;
    place[n] = data[n];
    block[n] = NULL;
    memory[n] = is_tensor(out[n]) ? (Storage *)Py_NewRef(((TensorHead *)out[n])->storage) : NULL;
    is_slows = !memory[n] || !is_apart(e, at->data, r, e->n_params, r) ||
               (!is_apart(e, at->data, r, 0, e->n_params) && !(block[n] = put_aside(e, n, &data[n])));
  }
  PyObject *result = is_slows ? NULL : run_entry(l, e, in, out, at);
  while (n--) {
    const Operand *o = &e->operand[e->n_params + n];
    if (result && block[n]) memcpy(place[n] + o->low, storage_data(block[n]), (size_t)(o->high - o->low));
    Py_DecRef((PyObject *)block[n]);
    Py_DecRef((PyObject *)memory[n]);
  }
  return result;
}

static PyObject *t_call(PyObject *launcher, PyObject *const *in, PyObject *const *out, PyObject **entry) {
  Launcher *l = (Launcher *)launcher;
  tc_i64 key[KEY_WORDS];
  Places at;
  Mood mood = {0, 0, 0, 0, 1};
  size_t words = 0;
  key[0] = out != NULL;
  int row = is_recent(l, in, out, &at) ? l->recent : -1;
  if (row < 0) {
    words = key_of(l, in, out, key, key + 1, &at, &mood);
    row = words ? look_up(l, key, words) : -1;
  }
  if (row >= 0) l->recent = row;
  Entry *e = row >= 0 ? l->row[row].entry : words ? entry_of_kind(l, key, 1, words) : NULL;
  if (!e) return NULL;
  if (entry) *entry = Py_NewRef(e);
  PyObject *result = run_entry(l, e, in, out, &at);
  if (!result && out && !at.has_run && !PyErr_Occurred() && key_of(l, in, out, key, key + 1, &at, &mood))
    result = run_aside(l, e, in, out, &at);
  if (row < 0) Py_DecRef(&e->ob_base);
  if (result) return result;
  if (entry) Py_CLEAR(*entry);
  if (!at.has_run && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError))
    PyErr_Clear(); /* slow says for what */
  return NULL;
}

static PyObject *t_run(PyObject *launcher, PyObject *entry, PyObject *const *in, PyObject *const *out) {
  Launcher *l = (Launcher *)launcher;
  Entry *e = (Entry *)entry;
  Places at = {.maker = tensor_lender, .has_run = 0};
  if (Py_TYPE(entry) != entry_type || e->n_params != l->n_params || e->n_returns != l->n_returns) {
    PyErr_SetString(PyExc_TypeError, "expected an Entry with as many operands as the launcher");
    return NULL;
  }
  return check_fit(l, e, in, out, at.data) ? NULL : run_entry(l, e, in, out, &at);
}

static PyObject **t_note(PyObject *entry) { return &((Entry *)entry)->note; }

static PyObject *t_number(const TensorHead *t) {
  int type_num = number_of_type(t), is_large;
  char kind = kind_of(type_num);
  if (kind == 'f' || kind == 'V') return PyFloat_FromDouble(float_at(type_num, t->data));
  tc_i64 whole = whole_at(type_num, t->data, &is_large);
  if (kind == 'b') return PyBool_FromLong(whole != 0);
  return kind == 'u' ? PyLong_FromUnsignedLongLong((tc_u64)whole) : PyLong_FromLongLong(whole);
}

static PyObject *type_objects; /* tuple of dtypes, found by their number */

static PyObject *t_array(TensorHead *t) {
  View v;
  Descr *descr = NULL;
  for (Py_ssize_t i = 0, n = PyTuple_Size(type_objects); i < n && !descr; i++)
    if (((Descr *)PyTuple_GetItem(type_objects, i))->type_num == number_of_type(t))
      descr = (Descr *)PyTuple_GetItem(type_objects, i);
  if (!descr || !see_tensor(t, &v)) {
    PyErr_SetString(PyExc_TypeError, "only a tensor in the host's memory is an array of NumPy's");
    return NULL;
  }
  int flags = ARRAY_ALIGNED | (t->flags & TENSOR_READ_ONLY ? 0 : ARRAY_WRITEABLE) |
              (t->flags & TENSOR_DENSE ? ARRAY_C_CONTIGUOUS : 0);
  PyObject *a = numpy.new_from_descr(numpy.array_type, (Descr *)Py_NewRef(descr), v.nd, v.dims, v.strides, v.data,
                                     flags, NULL);
  if (a && !numpy.set_base((Array *)a, Py_NewRef(t->storage))) return a;
  Py_DecRef(a);
  return NULL;
}

static int t_see_array(PyObject *o, char **data, const Py_ssize_t **dims, int *type_num, int *is_writeable) {
  const Array *a = (const Array *)o;
  if (!is_array(o) || !(a->flags & ARRAY_C_CONTIGUOUS)) return -1;
  *data = a->data;
  *dims = a->dims;
  *type_num = a->descr->type_num;
  *is_writeable = (a->flags & ARRAY_WRITEABLE) != 0;
  return a->nd;
}

static tc_runtime runtime = {TC_TENSOR_ABI, 0,        storage_new, storage_lent,  t_call,     t_run,
                             t_note,        t_number, t_array,     item_bytes_of, t_see_array};

/* Take over the library of tensors: (capsule of its functions, tuple of the dtypes they have); gives ours. */
static PyObject *m_tensors(PyObject *m, PyObject *args) {
  PyObject *capsule, *types;
  (void)m;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &types)) return NULL;
  const tc_tensors *given = PyCapsule_GetPointer(capsule, TC_TENSORS_NAME);
  if (!given) return NULL;
  if (given->abi != TC_TENSOR_ABI || tensors || n_lenders == MAX_LENDERS || tuple_length(types) < 0) {
    PyErr_SetString(internal_error, "tensors are taken over once, and have the ABI of the launcher");
    return NULL;
  }
  lenders[n_lenders++] = (Lender){.type = (PyTypeObject *)Py_NewRef(given->type), .writable = 1};
  runtime.lender = tensor_lender = n_lenders;
  type_objects = Py_NewRef(types);
  tensors = given;
  return PyCapsule_New(&runtime, TC_RUNTIME_NAME, NULL);
}
