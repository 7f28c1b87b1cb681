#include "json/vocabulary_limits.h"

#include <algorithm>

#include "text/json_space.h"

namespace structgen {

VocabularyLimits::VocabularyLimits(SchemaTable &table) : table_(table) {
  const auto exclude = [&](Type type) { types_ &= static_cast<uint8_t>(~type_bit(type)); };
  if (!spells("\"")) exclude(Type::String);
  if (!spells("{}")) exclude(Type::Object);
  if (!spells("[]")) exclude(Type::Array);
  const std::string_view digits = "0123456789";
  if (std::none_of(digits.begin(), digits.end(), [&](const char &digit) { return spells({&digit, 1}); }))
    exclude(Type::Number);
  if (table_.options().whitespace == Whitespace::Table) limit_by_space_table();
  else limit_by_layout();
}

bool VocabularyLimits::spells(std::string_view text) const {
  const std::bitset<256> &bytes = table_.text().vocabulary().spellable();
  return std::all_of(text.begin(), text.end(), [&](char c) { return bytes.test(static_cast<uint8_t>(c)); });
}

void VocabularyLimits::limit_by_layout() {
  const JsonOptions &o = table_.options();
  const bool fixed = o.whitespace == Whitespace::Written;
  auto spells_blanks = [&](uint8_t before, uint8_t after) { return !fixed || before + after == 0 || spells(" "); };
  const bool line = !fixed || !o.lines || spells("\n" + o.indent);
  const bool first_key = line && spells("\":") && spells_blanks(o.before_colon, o.after_colon);
  const bool further = spells(",") && spells_blanks(o.before_comma, o.after_comma);
  limit_counts(line, first_key, further);
}

void VocabularyLimits::limit_by_space_table() {
  mark_passable_gaps();
  const JsonOptions &o = table_.options();
  const auto passable = [&](SpaceAt at) { return o.rows[space_start(o, at)].can_go_on; };
  const bool first_key = spells("\":") && passable(SpaceAt::AfterKey) && passable(SpaceAt::AfterColon);
  const bool further = spells(",") && passable(SpaceAt::AfterValue) && passable(SpaceAt::AfterComma);
  limit_counts(true, first_key, further);
}

// Removes white space that no token spells, and finds backwards what can follow the rest.
void VocabularyLimits::mark_passable_gaps() {
  std::vector<SpaceRow> &rows = table_.space_rows();
  const std::bitset<256> &bytes = table_.text().vocabulary().spellable();
  constexpr char BLANKS[] = {' ', '\t', '\n', '\r'};
  for (SpaceRow &row : rows) {
    row.can_go_on = row.goes_on;
    row.can_close = row.closes;
    for (int i = 0; i < 4; ++i)
      if (!bytes.test(static_cast<uint8_t>(BLANKS[i]))) row.next[i] = SpaceRow::NONE;
  }
  for (bool changed = true; changed;) {  // one byte further in each round, so that the texts found are shortest
    changed = false;
    const std::vector<SpaceRow> before = rows;
    for (SpaceRow &row : rows) {
      charge();
      for (int i = 0; i < 4; ++i) {
        if (row.next[i] == SpaceRow::NONE) continue;
        const SpaceRow &next = before[row.next[i]];
        if (next.can_go_on && !row.can_go_on) row.can_go_on = changed = true, row.to_go_on = BLANKS[i];
        if (next.can_close && !row.can_close) row.can_close = changed = true, row.to_close = BLANKS[i];
      }
    }
  }
}

void VocabularyLimits::limit_counts(bool first_item, bool first_key, bool further_members) {
  if (first_item && first_key && further_members) return;
  SchemaNode n;
  n.pointer = "#";
  if (!first_key || !further_members) n.max_properties = first_key ? 1 : 0;
  if (!first_item || !further_members) n.max_items = first_item ? 1 : 0;
  counts_ = table_.add(std::move(n));
}

Formula VocabularyLimits::restrict(Formula expanded, Type type) {
  if (!(types_ & type_bit(type))) return FormulaSpace::FALSE;
  if (counts_ == NO_SCHEMA || (type != Type::Object && type != Type::Array)) return expanded;
  FormulaSpace &formulas = table_.formulas();
  return formulas.both(expanded, formulas.leaf(counts_));
}

}  // namespace structgen
