// Children of frames: what a value must satisfy so that its frame stays live.
//
// In a conjunctive frame every group must hold, so the requirement on a child is fixed. In a frame with branches it
// depends on what has been read, because that decides which groups may still fail.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "json/control/live_verdicts.h"
#include "json/oracle/value_controls.h"

namespace structgen {

// What the groups of a frame require of one child.
template <class Frame>
struct ChildRules {
  const Groups &relevant;  // groups whose requirement may be other than TRUE, sorted
  std::function<Formula(SchemaId)> requirement;
  std::function<Frame *(ObligationId)> frame_under;      // the frame with another obligation
  std::vector<std::pair<SchemaId, Formula>> contains{};  // items: groups that count them, and what they count
};

class ChildResolver {
 public:
  ChildResolver(SchemaTables &tables, JsonOracle &oracle, ValueControls &values)
      : tables_(tables),
        formulas_(tables.formulas()),
        obligations_(tables.obligations),
        oracle_(oracle),
        values_(values),
        live_verdicts_(tables, oracle) {}

  template <class Frame>
  std::unique_ptr<ChildControl<Frame>> make(Frame *frame, const ChildRules<Frame> &rules);
  // The variant for a frame that has read something. Null when no value of the child leaves the frame live.
  // `known`: the verdicts that leave it live, if they are known; `live` tests verdicts.
  template <class Frame>
  ChildControl<Frame> *resolve(ChildControl<Frame> *child, std::optional<Formula> known, const LiveAfter &live);

 private:
  template <class Frame>
  bool collect_roots(ChildControl<Frame> *child, const ChildRules<Frame> &rules);
  template <class Frame>
  Formula find_condition(const ChildControl<Frame> &child, const LiveAfter &live);
  template <class Frame>
  std::unique_ptr<ChildControl<Frame>> make_variant(const ChildControl<Frame> &child, Formula condition);

  SchemaTables &tables_;
  FormulaSpace &formulas_;
  Obligations &obligations_;
  JsonOracle &oracle_;
  ValueControls &values_;
  LiveVerdicts live_verdicts_;
};

}  // namespace structgen
