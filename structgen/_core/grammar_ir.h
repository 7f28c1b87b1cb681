// Reads a grammar's intermediate representation (see structgen/constraints/grammar/lowering.py).
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>

#include "automaton.h"

namespace structgen {

using ReadRe = std::function<Re(nanobind::handle)>;
using ReadPlan = std::function<std::unique_ptr<Plan>(nanobind::handle)>;

std::unique_ptr<GrammarControl> grammar_from_ir(nanobind::handle ir, TextSpace &space, const ReadRe &re,
                                                const ReadPlan &plan);

}  // namespace structgen
