// Obligations: what one value inside a document must satisfy.
//
// A value has *roots*, requirements whose verdicts its parent frame needs, and a *condition* over these roots that must
// come out true. Mostly there is one root, and it must hold. Obligations are interned: equal ids mean equal
// obligations.
#pragma once

#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/schema_table.h"

namespace structgen {

using ObligationId = uint32_t;
// (keyword group, root of a child): the group fails when the verdict of the root is false.
using GroupRoots = std::vector<std::pair<SchemaId, uint32_t>>;
// The verdict of a root, by its index.
using Holds = std::function<bool(uint32_t)>;

struct Obligation {
  std::vector<Formula> roots;
  Formula condition;    // over indexes of roots
  Formula requirement;  // the condition with the roots in place of their indexes
  bool conjunctive;     // one root that must hold, a conjunction of leaves
};

class Obligations {
 public:
  explicit Obligations(SchemaTable &table) : table_(table), formulas_(table.formulas()) {}

  ObligationId intern(std::vector<Formula> roots, Formula condition);
  // A value must satisfy `requirement`, and no verdict is needed.
  ObligationId require(Formula requirement) { return intern({requirement}, formulas_.leaf(0)); }
  const Obligation &operator[](ObligationId id) const { return obligations_[id]; }
  // Does the parent need more than the fact that the condition holds?
  bool needs_verdicts(const Obligation &o) { return o.roots.size() > 1 || o.condition != formulas_.leaf(0); }
  // The keyword groups of an expanded obligation, sorted.
  std::vector<SchemaId> groups(ObligationId id) const;
  // The obligation after some of its groups (sorted) have failed.
  ObligationId without(ObligationId id, const std::vector<SchemaId> &failed);
  // The obligation of a frame after a child whose roots `holds` judges.
  ObligationId after(ObligationId id, const GroupRoots &group_roots, const Holds &holds);
  // Is the condition true with these verdicts of the roots?
  bool is_met(ObligationId id, const std::vector<bool> &verdicts) const;
  std::vector<bool> evaluate(ObligationId id, const std::function<bool(SchemaId)> &group_holds) const;
  size_t size() const { return obligations_.size(); }

 private:
  SchemaTable &table_;
  FormulaSpace &formulas_;
  std::deque<Obligation> obligations_;
  std::unordered_multimap<uint64_t, ObligationId> index_;
  std::unordered_map<Hash128, ObligationId, HashOf128> after_;  // by the obligation and the groups that failed
};

}  // namespace structgen
