// Python bindings of canvases.
#include "canvas/canvas.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bind/gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {
namespace {

// A token's id, -1 for an open cell, -2 for a gap; or one of the last two with the words of a mask.
CanvasCell read_cell(nb::handle given, uint32_t size) {
  CanvasCell cell;
  nb::handle kind = given;
  if (nb::isinstance<nb::tuple>(given)) {
    const auto both = nb::cast<nb::tuple>(given);
    kind = both[0];
    cell.allowed = nb::cast<std::vector<uint32_t>>(both[1]);
    if (cell.allowed.size() != (size + 31) / 32) throw std::invalid_argument("a cell's mask is of another vocabulary");
  }
  const auto number = nb::cast<int64_t>(kind);
  if (number < -2 || number >= size) throw std::out_of_range("cell " + std::to_string(number) + " is no token");
  cell.kind = number == -2 ? CanvasCell::Gap : number == -1 ? CanvasCell::Open : CanvasCell::Fixed;
  if (number >= 0) cell.token = static_cast<uint32_t>(number);
  return cell;
}

void check_cell(const Canvas &canvas, size_t cell) {
  if (cell >= canvas.form().cells.size()) throw std::out_of_range("the canvas has no cell " + std::to_string(cell));
}

void copy_mask(Canvas &canvas, size_t cell, int32_t *out, size_t words) {
  const std::vector<uint32_t> &mask = canvas.mask(cell);
  if (words < mask.size()) throw std::out_of_range("the bitmask is too short");
  std::copy(mask.begin(), mask.end(), reinterpret_cast<uint32_t *>(out));
}

using LogP = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void check_weights(const Canvas &canvas, const LogP &log_p) {
  const Vocabulary &v = canvas.program()->program->space().vocabulary();
  if (log_p.shape(0) < canvas.form().cells.size() || log_p.shape(1) < v.size())
    throw std::out_of_range("log_p needs a row for each cell, with a number for each token");
}

// Token ids by cell; -1 for a cell without a token.
std::vector<int64_t> token_ids(const std::vector<uint32_t> &tokens) {
  std::vector<int64_t> out;
  for (uint32_t id : tokens) out.push_back(id == Canvas::CLOSED ? -1 : static_cast<int64_t>(id));
  return out;
}

void make_canvas(Canvas *self, std::shared_ptr<CanvasProgram> program, nb::list cells,
                 std::vector<std::pair<uint32_t, uint32_t>> skips, std::vector<uint32_t> closing, size_t nodes,
                 size_t bytes, size_t words) {
  CanvasForm form;
  const uint32_t size = program->program->space().vocabulary().size();
  for (nb::handle cell : cells) form.cells.push_back(read_cell(cell, size));
  for (const auto &[from, to] : skips)
    if (from >= to || to > form.cells.size()) throw std::out_of_range("a skip leads forward, and not past the end");
  for (uint32_t id : closing)
    if (id >= size) throw std::out_of_range("a closing token is no token");
  form.skips = std::move(skips);
  form.closing = std::move(closing);
  new (self) Canvas(std::move(program), std::move(form), CanvasLimits{nodes, bytes, words});
}

void bind_completions(nb::class_<Canvas> &canvas) {
  canvas
      .def(
          "completion",
          [](Canvas &self, std::vector<uint32_t> preferred) -> std::optional<std::vector<int64_t>> {
            const auto found = used_without_gil(self, [&] { return self.completion(preferred); });
            if (!found) return std::nullopt;
            return token_ids(*found);
          },
          "preferred"_a = std::vector<uint32_t>{})
      .def(
          "prefer",
          [](Canvas &self, std::vector<uint32_t> tokens) {
            const Use use(self.in_use());
            self.prefer(std::move(tokens));
          },
          "tokens"_a)
      .def(
          "best",
          [](Canvas &self, LogP log_p) -> std::optional<std::pair<std::vector<int64_t>, double>> {
            check_weights(self, log_p);
            const auto found = used_without_gil(self, [&] { return self.best(log_p.data(), log_p.shape(1)); });
            if (!found) return std::nullopt;
            return std::make_pair(token_ids(found->tokens), found->log_weight);
          },
          "log_p"_a)
      .def(
          "draw",
          [](Canvas &self, LogP log_p, uint64_t seed,
             size_t tries) -> std::optional<std::pair<std::vector<int64_t>, double>> {
            check_weights(self, log_p);
            std::mt19937_64 chance(seed);
            const auto found =
                used_without_gil(self, [&] { return self.draw(log_p.data(), log_p.shape(1), chance, tries); });
            if (!found) return std::nullopt;
            return std::make_pair(token_ids(found->tokens), found->log_weight);
          },
          "log_p"_a, "seed"_a, "tries"_a = 1'000);
}

}  // namespace

void bind_canvas(nb::module_ &m) {
  nb::class_<CanvasProgram>(m, "CanvasProgram")
      .def(nb::init<std::shared_ptr<Program>>(), "program"_a, nb::call_guard<WithoutGil>());

  nb::class_<Canvas> canvas(m, "Canvas");
  canvas
      .def("__init__", &make_canvas, "program"_a, "cells"_a, "skips"_a, "closing"_a, "nodes"_a, "bytes"_a,
           "words"_a = CanvasLimits{}.words)
      .def("completable", [](Canvas &self) { return used_without_gil(self, [&] { return self.completable(); }); })
      .def(
          "mask",
          [](Canvas &self, size_t cell, nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
            check_cell(self, cell);
            int32_t *data = out.data();
            const size_t words = out.shape(0);
            used_without_gil(self, [&] { copy_mask(self, cell, data, words); });
          },
          "cell"_a, "out"_a)
      .def(
          "masks",
          [](Canvas &self, nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
            const size_t cells = self.form().cells.size();
            if (out.shape(0) < cells) throw std::out_of_range("the bitmask has fewer rows than the canvas has cells");
            int32_t *data = out.data();
            const size_t words = out.shape(1);
            used_without_gil(self, [&] {
              for (size_t i = 0; i < cells; ++i) copy_mask(self, i, data + i * words, words);
            });
          },
          "out"_a)
      .def(
          "commit",
          [](Canvas &self, size_t cell, uint32_t token) {
            check_cell(self, cell);
            if (token >= self.program()->program->space().vocabulary().size()) throw std::out_of_range("no such token");
            return used_without_gil(self, [&] { return self.commit(cell, token); });
          },
          "cell"_a, "token"_a)
      .def(
          "reopen",
          [](Canvas &self, size_t cell) {
            check_cell(self, cell);
            const Use use(self.in_use());
            self.reopen(cell);
          },
          "cell"_a)
      .def("copy",
           [](Canvas &self) {
             const Use use(self.in_use());
             return std::make_unique<Canvas>(self);
           })
      .def_prop_ro("nodes", &Canvas::nodes)
      .def_prop_ro("charts", &Canvas::charts);
  bind_completions(canvas);
}

}  // namespace structgen
