// Calls a handler of XLA's typed FFI as XLA:GPU does, with a call frame made here: on memory and a
// stream that the caller has, where there is no XLA for a GPU.
#include <cstring>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"

struct XLA_FFI_Error {
  std::string message;
};
struct XLA_FFI_ExecutionContext {
  void* stream;
};

/// dtype: of XLA_FFI_DataType.
struct ArrayInFrame {
  int dtype;
  void* data;
  std::int64_t* dims;
  std::int64_t rank;
};

namespace {

XLA_FFI_Error* create(XLA_FFI_Error_Create_Args* args) { return new XLA_FFI_Error{args->message}; }
void message_of(XLA_FFI_Error_GetMessage_Args* args) {
  args->message = args->error->message.c_str();
}
void destroy(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }
XLA_FFI_Error* stream_of(XLA_FFI_Stream_Get_Args* args) {
  args->stream = args->ctx->stream;
  return nullptr;
}

struct Buffers {
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<void*> places;
  Buffers(const ArrayInFrame* arrays, int count) {
    for (int i = 0; i < count; ++i) {
      buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr,
                         static_cast<XLA_FFI_DataType>(arrays[i].dtype), arrays[i].data,
                         arrays[i].rank, arrays[i].dims});
    }
    for (XLA_FFI_Buffer& b : buffers) places.push_back(&b);
  }
};

}  // namespace

/// 0, or 1 and the error's words in `words`.
extern "C" int call_in_frame(XLA_FFI_Handler* handler, const char* kernel, void* stream,
                             const ArrayInFrame* operands, int operand_count,
                             const ArrayInFrame* results, int result_count, char* words, int size) {
  XLA_FFI_Api api{};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                     XLA_FFI_API_MINOR};
  api.XLA_FFI_Error_Create = create;
  api.XLA_FFI_Error_GetMessage = message_of;
  api.XLA_FFI_Error_Destroy = destroy;
  api.XLA_FFI_Stream_Get = stream_of;
  XLA_FFI_ExecutionContext context{stream};

  Buffers in(operands, operand_count);
  Buffers out(results, result_count);
  std::vector<XLA_FFI_ArgType> in_types(in.places.size(), XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> out_types(out.places.size(), XLA_FFI_RetType_BUFFER);
  XLA_FFI_ByteSpan attribute{"kernel", 6};
  XLA_FFI_ByteSpan value{kernel, std::strlen(kernel)};
  XLA_FFI_AttrType type = XLA_FFI_AttrType_STRING;
  XLA_FFI_ByteSpan* attribute_names[] = {&attribute};
  void* attributes[] = {&value};

  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &api;
  frame.ctx = &context;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, operand_count, in_types.data(),
                in.places.data()};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, result_count, out_types.data(),
                out.places.data()};
  frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 1, &type, attribute_names, attributes};
  XLA_FFI_Error* const error = handler(&frame);
  if (error == nullptr) return 0;
  std::strncpy(words, error->message.c_str(), static_cast<std::size_t>(size) - 1);
  words[size - 1] = '\0';
  delete error;
  return 1;
}
