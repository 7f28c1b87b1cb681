// These functions run while the thread holds a space and not the GIL. A thread that waits for a space has released the
// GIL (bind/engine.cpp), so acquiring it here cannot deadlock. Python may then do anything except hold the same space
// again on the same thread, which would wait for itself: `Unfolding` marks the space, and `TextSpace::hold` refuses.
#include "bind/python_source.h"

#include <algorithm>

#include "bind/gil.h"
#include "bind/regex_ir.h"

namespace nb = nanobind;

namespace structgen {
namespace {

class __attribute__((visibility("hidden"))) PythonSource final : public Source {
 public:
  PythonSource(RegexSpace &space, nb::object object) : space_(space), object_(std::move(object)) {}
  ~PythonSource() override {
    // Spaces are destroyed on the thread that releases them last, perhaps after Python itself.
    if (!Py_IsInitialized()) {
      object_.release();
      return;
    }
    WithGil held;
    object_ = nb::object();
  }

  bool accepts(uint64_t state) override {
    WithGil held;
    const Unfolding here(space_);
    return nb::cast<bool>(object_.attr("accepts")(state));
  }

  std::vector<Edge> edges(uint64_t state) override {
    WithGil held;
    const Unfolding here(space_);
    const nb::object listed = object_.attr("edges")(state);
    const IrPart list{listed, "edges"};
    std::vector<Edge> out;
    for (size_t i = 0; i < list.size(); ++i) {
      const IrPart edge = list[i];
      edge.size(2, "an edge: an expression and a state");
      const Re text = regex_from_ir(space_, edge[0]);
      if (space_.nullable(text)) edge[0].fail("takes the empty text");
      out.push_back({text, static_cast<uint64_t>(edge[1].integer(0, INT64_MAX))});
    }
    return out;
  }

  bool completion(uint64_t state, std::string *out) override {
    WithGil held;
    const Unfolding here(space_);
    const nb::object text = object_.attr("completion")(state);
    if (text.is(nb::none())) return false;
    *out += nb::str(text).c_str();
    return true;
  }

  bool is(nb::handle object) const { return object_.is(object); }
  uint64_t start() const { return nb::cast<uint64_t>(object_.attr("start")); }

 private:
  RegexSpace &space_;  // which owns this source
  nb::object object_;
};

}  // namespace

Re unfolding_from_python(RegexSpace &space, const IrPart &object) {
  auto wanted = [&](Source &source) {
    auto *known = dynamic_cast<PythonSource *>(&source);
    return known && known->is(object.value());
  };
  std::shared_ptr<Source> source = space.find_source(wanted);
  if (!source) source = std::make_shared<PythonSource>(space, nb::borrow(object.value()));
  return space.unfolding(source, static_cast<PythonSource &>(*source).start());
}

}  // namespace structgen
