// Next-token distributions under upper bounds, for the exact samplers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <string>

#include "sampling/step_bounds.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {
namespace {

template <class T>
using Row = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bits = std::optional<Row<int32_t>>;

template <class T>
std::span<const T> span(const Row<T> &row) {
  return {row.data(), row.size()};
}

MaskedDistribution masked_distribution(const Row<float> &log_p, const Row<float> &masses, const Bits &allowed) {
  MaskedDistribution distribution{span(log_p), span(masses), {}};
  if (log_p.size() != masses.size()) throw nb::value_error("log_p and masses have different lengths");
  if (masses.size() > INT32_MAX) throw nb::value_error("a distribution has at most 2**31 - 1 tokens");
  if (!allowed) return distribution;
  if (allowed->size() < distribution.words())
    throw nb::value_error("the mask has fewer bits than the distribution has tokens");
  distribution.allowed = {reinterpret_cast<const uint32_t *>(allowed->data()), allowed->size()};
  return distribution;
}

// A copy, owned by the array.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> copied(const std::vector<T> &values) {
  auto *kept = new std::vector<T>(values);
  nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
  return {kept->data(), {kept->size()}, owner};
}

size_t index_of(const StepBounds &self, int32_t token) {
  const size_t index = self.index_of(token);
  if (index == StepBounds::NOT_STORED) throw nb::key_error(std::to_string(token).c_str());
  return index;
}

}  // namespace

void bind_sampling(nb::module_ &m) {
  nb::class_<StepBounds>(m, "StepBounds")
      .def(
          "__init__",
          [](StepBounds *self, const Row<float> &log_p, const Row<float> &masses, const Bits &allowed, float least,
             int64_t few) { new (self) StepBounds(masked_distribution(log_p, masses, allowed), least, few); },
          "log_p"_a, "masses"_a, "allowed"_a.none(), "least"_a, "few"_a)
      .def_static(
          "restore",
          [](const Row<int32_t> &tokens, const Row<double> &log_p, const Row<double> &theta, double tail) {
            const auto ids = span(tokens);
            const auto logs = span(log_p), bounds = span(theta);
            if (ids.size() != logs.size() || ids.size() != bounds.size())
              throw nb::value_error("tokens, log_p and theta have different lengths");
            return StepBounds({ids.begin(), ids.end()}, {logs.begin(), logs.end()}, {bounds.begin(), bounds.end()},
                              tail);
          },
          "tokens"_a, "log_p"_a, "theta"_a, "tail"_a)
      .def("draw", &StepBounds::draw, "uniform"_a)
      .def("log_prob", [](const StepBounds &self, int32_t token) { return self.log_p()[index_of(self, token)]; })
      .def("bound_of", [](const StepBounds &self, int32_t token) { return self.theta()[index_of(self, token)]; })
      .def(
          "learn",
          [](StepBounds &self, int32_t token, double theta) {
            self.learn(index_of(self, token), theta);
            return self.bound();
          },
          "token"_a, "theta"_a)
      .def(
          "store",
          [](StepBounds &self, int32_t token, const Row<float> &log_p, const Row<float> &masses, const Bits &allowed) {
            const MaskedDistribution distribution = masked_distribution(log_p, masses, allowed);
            if (token < 0 || static_cast<size_t>(token) >= masses.size())
              throw nb::index_error("the token is outside of the distribution");
            self.store(token, distribution);
          },
          "token"_a, "log_p"_a, "masses"_a, "allowed"_a.none())
      .def("__len__", [](const StepBounds &self) { return self.tokens().size(); })
      .def_prop_ro("bound", &StepBounds::bound)
      .def_prop_ro("tail", &StepBounds::tail)
      .def_prop_ro(
          "tokens", [](const StepBounds &self) { return copied(self.tokens()); }, nb::rv_policy::move)
      .def_prop_ro(
          "log_p", [](const StepBounds &self) { return copied(self.log_p()); }, nb::rv_policy::move)
      .def_prop_ro("theta", [](const StepBounds &self) { return copied(self.theta()); }, nb::rv_policy::move);
}

}  // namespace structgen
