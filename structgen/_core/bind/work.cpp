// Limits of calls for Python: errors, stop flags, bounds on all calls of a thread, and signals while a call runs.
#include "util/work.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <atomic>
#include <limits>
#include <optional>

#include "bind/gil.h"
#include "regex/regex.h"  // LimitError

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {
namespace {

std::atomic<unsigned long> main_thread{0};

// Runs the handlers of signals that have arrived, as Python does between two of its instructions. Only the main
// thread may; the others need not wait for the GIL.
void handle_signals() {
  if (PyThread_get_thread_ident() != main_thread) return;
  WithGil gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// `with CallLimits(...)`: bounds on the calls of the core that this thread makes inside.
class CallLimits {
 public:
  CallLimits(std::optional<double> cpu_seconds, std::optional<double> seconds, std::optional<uint64_t> steps,
             std::shared_ptr<StopFlag> stop)
      : cpu_seconds_(cpu_seconds), seconds_(seconds), steps_(steps), stop_(std::move(stop)) {}
  void enter() {
    if (bounds_) throw std::runtime_error("CallLimits is in use; make one for each block");
    constexpr double NONE = std::numeric_limits<double>::infinity();
    bounds_.emplace(cpu_seconds_.value_or(NONE), seconds_.value_or(NONE), steps_.value_or(UINT64_MAX), stop_);
  }
  void exit() { bounds_.reset(); }

 private:
  std::optional<double> cpu_seconds_, seconds_;
  std::optional<uint64_t> steps_;
  std::shared_ptr<StopFlag> stop_;
  std::optional<CallBounds> bounds_;
};

}  // namespace

void bind_work(nb::module_ &m) {
  // Subclasses of the package's errors, so that an error of the core that nothing converts is a `StructgenError`, too.
  const nb::module_ errors = nb::module_::import_("structgen.errors");
  const nb::exception<LimitError> limit_error(m, "LimitError", errors.attr("LimitExceeded"));
  const nb::exception<Stopped> stopped(m, "Stopped", errors.attr("Stopped"));
  nb::register_exception_translator(
      [](const std::exception_ptr &p, void *type) {
        try {
          std::rethrow_exception(p);
        } catch (const CallLimit &e) {
          PyErr_SetString(static_cast<PyObject *>(type), e.what());
        }
      },
      limit_error.ptr());

  nb::class_<StopFlag>(m, "StopFlag")
      .def(nb::init<>())
      .def("set", [](StopFlag &self) { self.is_set = true; })
      .def("is_set", [](const StopFlag &self) { return self.is_set.load(); });

  nb::class_<CallLimits>(m, "CallLimits")
      .def(nb::init<std::optional<double>, std::optional<double>, std::optional<uint64_t>, std::shared_ptr<StopFlag>>(),
           nb::kw_only(), "cpu_seconds"_a = nb::none(), "seconds"_a = nb::none(), "steps"_a = nb::none(),
           "stop"_a = nb::none())
      .def(
          "__enter__",
          [](CallLimits &self) -> CallLimits & {
            self.enter();
            return self;
          },
          nb::rv_policy::reference)
      .def("__exit__", [](CallLimits &self, nb::args) { self.exit(); });

  m.def("work_done", &work::done);
  // Python code that reads schemas and patterns calls it, so that `CallLimits` end it.
  m.def("charge", [](uint64_t units) { charge(units); }, "units"_a);
  // Called in the child of a fork: its only thread is the main one.
  m.def("main_thread_is_here", [] { main_thread = PyThread_get_thread_ident(); });

  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  work::on_interrupt_check(&handle_signals);
}

}  // namespace structgen
