// Reads a grammar's intermediate representation (see structgen/constraints/grammar/lowering.py).
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "automaton/automaton.h"
#include "bind/ir_part.h"

namespace structgen {

// A constraint names a token that the vocabulary lacks.
struct TokenError : std::runtime_error {
  TokenError(const std::string &what, std::string written, std::string advice)
      : std::runtime_error(what), where(std::move(written)), hint(std::move(advice)) {}
  std::string where, hint;
};

using ReadRe = std::function<Re(const IrPart &)>;
using ReadPlan = std::function<std::unique_ptr<Plan>(const IrPart &)>;

// Has the constraint the empty text?
bool has_empty_text(const Plan &plan, const RegexSpace &regex);

// Throws std::invalid_argument for a shape that is no IR; it names the field.
std::unique_ptr<GrammarControl> grammar_from_ir(const IrPart &ir, TextSpace &space, const ReadRe &re,
                                                const ReadPlan &plan);

}  // namespace structgen
