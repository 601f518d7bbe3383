// What is wrong with what a caller gave, as a ValueError of Python. Of each extension module.
#pragma once

#include <nanobind/nanobind.h>

#include "memory_model/device_spec.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera {

inline void raise_input_errors_as_value_errors() {
  nanobind::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const InputError& e) {
      PyErr_SetString(PyExc_ValueError, e.text().c_str());
    } catch (const SpecError& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    }
  });
}

}  // namespace tessera
