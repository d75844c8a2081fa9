/* What calls ask of torch's tensors, and how autograd records calls, by the headers of the torch that runs.
 *
 * `__init__.py` compiles this once for a torch, a Python and a compiler. Nothing here knows how torch lays
 * out an object but by its headers.
 */
#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/TracerMode.h>
#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_variable.h>

#include "bridge.h"

namespace {

using at::Tensor;
using c10::DispatchKey;

/* ---- tensors */

/* The dispatch keys of a tensor of which there is no more than its memory: one with a further key is negated,
 * conjugated, zeros that nobody wrote, sparse, on a GPU, a transform's, a subclass that stands for another, ... */
uint64_t plain_keys;

int moment() {
  const auto included = c10::impl::tls_local_dispatch_key_set().included_;
  const c10::DispatchKeySet watching{
      DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode, DispatchKey::Tracer};
  if (included.has_any(watching) || c10::impl::TorchDispatchModeTLS::stack_len() ||
      at::impl::torch_function_mode_enabled() || torch::autograd::ForwardADLevel::try_get_by_idx(0))
    return TC_UNUSUAL;
  return at::GradMode::is_enabled() ? TC_TRACKS : 0;
}

bool describe_type(at::ScalarType type, DLDataType* to) {
  const auto is = [to](int code, int bits) {
    *to = {static_cast<unsigned char>(code), static_cast<unsigned char>(bits), 1};
    return true;
  };
  switch (type) {
    case at::kBool:
      return is(DL_BOOL, 8);
    case at::kChar:
      return is(DL_INT, 8);
    case at::kShort:
      return is(DL_INT, 16);
    case at::kInt:
      return is(DL_INT, 32);
    case at::kLong:
      return is(DL_INT, 64);
    case at::kByte:
      return is(DL_UINT, 8);
    case at::kUInt16:
      return is(DL_UINT, 16);
    case at::kUInt32:
      return is(DL_UINT, 32);
    case at::kUInt64:
      return is(DL_UINT, 64);
    case at::kHalf:
      return is(DL_FLOAT, 16);
    case at::kBFloat16:
      return is(DL_BFLOAT, 16);
    case at::kFloat:
      return is(DL_FLOAT, 32);
    case at::kDouble:
      return is(DL_FLOAT, 64);
    default:
      return false;
  }
}

/* Describe the memory of a plain tensor; a lazy clone gets its own. */
bool describe(const at::TensorBase& x, DLTensor* to) {
  static_assert(sizeof(long long) == sizeof(int64_t));
  const auto* impl = x.unsafeGetTensorImpl();
  if (impl->has_symbolic_sizes_strides() || !describe_type(x.scalar_type(), &to->dtype)) return false;
  to->data = x.mutable_data_ptr();
  to->device_type = DL_CPU;
  to->device_id = 0;
  to->ndim = static_cast<int>(impl->dim());
  to->shape = reinterpret_cast<long long*>(const_cast<int64_t*>(impl->sizes().data()));
  to->strides = reinterpret_cast<long long*>(const_cast<int64_t*>(impl->strides().data()));
  to->byte_offset = 0;
  return true;
}

int view_of(void* object, int tracks, DLTensor* to) {
  try {
    const Tensor& x = THPVariable_Unpack(static_cast<PyObject*>(object));
    if (!x.defined()) return TC_NOT_PLAIN;
    if (tracks && x.requires_grad()) return TC_IS_TRACKED;
    if (x.key_set().raw_repr() & ~plain_keys) return TC_NOT_PLAIN;
    return describe(x, to) ? TC_PLAIN : TC_NOT_PLAIN;
  } catch (...) { /* it gives no memory, for a reason that slow tells */
    return TC_NOT_PLAIN;
  }
}

void* make(void* model, DLTensor* to) {
  HANDLE_TH_ERRORS
  const Tensor& like = THPVariable_Unpack(static_cast<PyObject*>(model));
  at::TensorBase made = at::detail::empty_cpu(like.sizes(), like.scalar_type());
  TORCH_CHECK(describe(made, to), "a type that no kernel returns");
  return THPVariable_Wrap(std::move(made));
  END_HANDLE_TH_ERRORS
}

int written(void* object) {
  HANDLE_TH_ERRORS
  const Tensor& x = THPVariable_Unpack(static_cast<PyObject*>(object));
  if (!x.is_inference()) x.unsafeGetTensorImpl()->bump_version();
  return 0;
  END_HANDLE_TH_ERRORS_RET(-1)
}

const tc_bridge bridge = {TC_BRIDGE_ABI, moment, view_of, make, written};

/* ---- calls that autograd records */

PyObject *word_backward_class, *word_forward;

bool is_tensor(PyObject* object) {
  return THPVariable_CheckExact(object) || PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

bool is_among(PyObject* tuple, PyObject* object) {
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++)
    if (PyTuple_GET_ITEM(tuple, i) == object) return true;
  return false;
}

/* Say of the arguments what the way back needs to know of them. */
void take_inputs(THPFunction* ctx, PyObject* const* args, Py_ssize_t n, bool* is_recorded) {
  THPObjectPtr needs(PyTuple_New(n));
  if (!needs) throw python_error();
  torch::autograd::edge_list edges;
  ctx->is_variable_input.resize(n);
  for (Py_ssize_t i = 0; i < n; i++) {
    bool needed = false;
    ctx->is_variable_input[i] = is_tensor(args[i]);
    if (ctx->is_variable_input[i]) {
      const Tensor& x = THPVariable_Unpack(args[i]);
      needed = x.requires_grad();
      edges.push_back(torch::autograd::impl::gradient_edge(x));
      ctx->input_info.emplace_back(x);
    }
    *is_recorded |= needed;
    PyTuple_SET_ITEM(needs.get(), i, Py_NewRef(needed ? Py_True : Py_False));
  }
  *is_recorded &= at::GradMode::is_enabled();
  if (*is_recorded)
    ctx->cdata->set_next_edges(std::move(edges));
  else
    ctx->input_info.clear();
  Py_XSETREF(ctx->needs_input_grad, needs.release());
}

void record_output(THPFunction* ctx, PyObject* result) {
  TORCH_CHECK_TYPE(is_tensor(result), "a recorded call gives tensors");
  const Tensor& y = THPVariable_Unpack(result);
  TORCH_CHECK(!y.requires_grad() && !y.is_view(), "a recorded call gives new tensors");
  ctx->output_info.emplace_back(y);
  if (is_among(ctx->non_differentiable, result))
    ctx->cdata->add_input_metadata(torch::autograd::Node::undefined_input());
  else
    torch::autograd::impl::set_gradient_edge(y, {ctx->cdata, ctx->cdata->add_input_metadata(y)});
}

/* Behind the outputs, which know by then whose they are. */
void save(THPFunction* ctx) {
  for (Py_ssize_t i = 0; ctx->to_save && i < PyTuple_GET_SIZE(ctx->to_save); i++) {
    PyObject* saved = PyTuple_GET_ITEM(ctx->to_save, i);
    TORCH_CHECK_TYPE(is_tensor(saved), "save_for_backward takes tensors");
    const Tensor& x = THPVariable_Unpack(saved);
    ctx->saved_variables.emplace_back(x, x.grad_fn().get() == ctx->cdata.get());
  }
}

/* apply(function, *args): what `Function.apply` of torch does for a function in Python, where no transform and no trace
 * is active and forward gives new tensors. The node is torch's own, of the function's own class: hooks, saved
 * tensors, freed buffers, anomalies and compiled autograd are torch's. */
PyObject* apply(PyObject*, PyObject* const* args, Py_ssize_t n) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(n >= 1 && PyType_Check(args[0]), "apply takes a Function and its arguments");
  PyObject* function = args[0];
  RECORD_FUNCTION(reinterpret_cast<PyTypeObject*>(function)->tp_name, c10::ArrayRef<const c10::IValue>{});
  THPObjectPtr backward_class(PyObject_GetAttr(function, word_backward_class));
  THPObjectPtr forward(PyObject_GetAttr(function, word_forward));
  if (!backward_class || !forward) throw python_error();
  THPObjectPtr made(PyObject_CallNoArgs(backward_class));
  if (!made) throw python_error();
  TORCH_CHECK_TYPE(PyObject_TypeCheck(made.get(), &THPFunctionType), "apply takes a Function and its arguments");
  auto* ctx = reinterpret_cast<THPFunction*>(made.get());
  TORCH_CHECK(ctx->cdata, "torch made a function without its node");
  bool is_recorded = false;
  take_inputs(ctx, args + 1, n - 1, &is_recorded);
  THPObjectPtr results;
  {
    at::AutoGradMode no_grad(false);
    at::AutoFwGradMode no_tangents(false);
    c10::SmallVector<PyObject*, 16> given(args, args + n);
    given[0] = made.get();
    results = PyObject_Vectorcall(forward, given.data(), n, nullptr);
  }
  if (!results) throw python_error();
  if (is_recorded) {
    TORCH_CHECK(!ctx->dirty_tensors, "a recorded call gives new tensors");
    ctx->cdata->clear_input_metadata();
    if (PyTuple_Check(results.get()))
      for (Py_ssize_t r = 0; r < PyTuple_GET_SIZE(results.get()); r++)
        record_output(ctx, PyTuple_GET_ITEM(results.get(), r));
    else
      record_output(ctx, results);
    save(ctx);
  }
  Py_CLEAR(ctx->to_save);
  Py_CLEAR(ctx->non_differentiable);
  return results.release();
  END_HANDLE_TH_ERRORS
}

/* seen(tensor, tracks): (address, shape, strides, code, bits) of a plain tensor, else None. */
PyObject* seen(PyObject*, PyObject* const* args, Py_ssize_t n) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(n == 2 && is_tensor(args[0]), "seen takes a tensor and whether it may be tracked");
  DLTensor t;
  if (view_of(args[0], args[1] == Py_True, &t) != TC_PLAIN) Py_RETURN_NONE;
  THPObjectPtr shape(PyTuple_New(t.ndim)), strides(PyTuple_New(t.ndim));
  if (!shape || !strides) throw python_error();
  for (int d = 0; d < t.ndim; d++) {
    PyTuple_SET_ITEM(shape.get(), d, PyLong_FromLongLong(t.shape[d]));
    PyTuple_SET_ITEM(strides.get(), d, PyLong_FromLongLong(t.strides[d]));
  }
  return Py_BuildValue("KOOii", reinterpret_cast<unsigned long long>(t.data), shape.get(), strides.get(), t.dtype.code, t.dtype.bits);
  END_HANDLE_TH_ERRORS
}

template <typename Function>
PyCFunction as_method(Function* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef methods[] = {{"apply", as_method(apply), METH_FASTCALL, nullptr},
                         {"seen", as_method(seen), METH_FASTCALL, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_bridge", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__bridge() {
  HANDLE_TH_ERRORS
  c10::InferenceMode usual(false);
  plain_keys = at::TensorBase(at::detail::empty_cpu({0}, at::kFloat)).key_set().raw_repr();
  word_backward_class = PyUnicode_InternFromString("_backward_cls");
  word_forward = PyUnicode_InternFromString("forward");
  PyObject* capsule = PyCapsule_New(const_cast<tc_bridge*>(&bridge), TC_BRIDGE_NAME, nullptr);
  PyObject* made = PyModule_Create(&module);
  if (!made || !capsule || !word_backward_class || !word_forward || PyModule_AddObject(made, "bridge", capsule))
    return nullptr;
  return made;
  END_HANDLE_TH_ERRORS
}
