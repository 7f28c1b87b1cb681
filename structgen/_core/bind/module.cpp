// The extension module: one bind_* function per piece of the core.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace structgen {
void bind_canvas(nb::module_ &m);
void bind_engine(nb::module_ &m);
void bind_json(nb::module_ &m);
void bind_lark(nb::module_ &m);
void bind_lowering(nb::module_ &m);
void bind_numbers(nb::module_ &m);
void bind_regex(nb::module_ &m);
void bind_sampling(nb::module_ &m);
void bind_work(nb::module_ &m);
}  // namespace structgen

NB_MODULE(_native, m) {
  // An interpreter may end while a matcher still exists, for example after an uncaught error. That is not worth a
  // warning.
  nanobind::set_leak_warnings(false);
  structgen::bind_work(m);  // first: it names the core's exceptions
  structgen::bind_regex(m);
  structgen::bind_numbers(m);
  structgen::bind_engine(m);
  structgen::bind_canvas(m);
  structgen::bind_json(m);
  structgen::bind_lark(m);
  structgen::bind_lowering(m);
  structgen::bind_sampling(m);
}
