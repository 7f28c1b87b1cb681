// Languages that are unfolded as they are read (`Source`).
//
// A leaf is a source in one of its states. When its derivatives are needed, it is written out as the union of its
// edges, each a text followed by the leaf of the next state. So only what is read is made. The source is called for
// whether a text may end in a state when the leaf of that state is made.
//
// The edges of a source lead only to states that have a text. So a leaf is as plain as a class: it is alive without a
// search. If the vocabulary cannot spell every text, this does not follow, and a search decides.
#include "regex/regex_nodes.h"

namespace structgen {
namespace {

thread_local const RegexSpace *unfolding_space = nullptr;

}  // namespace

Unfolding::Unfolding(const RegexSpace &space) : before_(std::exchange(unfolding_space, &space)) {}
Unfolding::~Unfolding() { unfolding_space = before_; }
bool Unfolding::is_on(const RegexSpace &space) { return unfolding_space == &space; }

Re RegexSpace::Impl::source_leaf(uint32_t index, uint64_t state) {
  ReNode n{.kind = ReKind::Source,
           .nullable = sources[index]->accepts(state),
           .plain = ascii_complete && continuations_complete && spellable.test('\n'),
           .index = index};
  n.unfolds = true;
  n.lo = static_cast<int64_t>(state);
  return intern(n, {});
}

Re RegexSpace::Impl::unfold(Re r) {
  const uint32_t index = nodes[r].index;
  std::vector<structgen::Source::Edge> edges = sources[index]->edges(static_cast<uint64_t>(nodes[r].lo));
  std::vector<Re> ways;
  for (auto [text, to] : edges) ways.push_back(concat(text, source_leaf(index, to)));
  return alternate(ways);
}

Re RegexSpace::unfolding(const std::shared_ptr<Source> &source, uint64_t state) {
  Impl &s = *impl_;
  const auto it = std::find(s.sources.begin(), s.sources.end(), source);
  const auto index = static_cast<uint32_t>(it - s.sources.begin());
  if (it == s.sources.end()) s.sources.push_back(source);
  return s.source_leaf(index, state);
}

std::shared_ptr<Source> RegexSpace::find_source(const std::function<bool(Source &)> &wanted) const {
  for (auto &s : impl_->sources)
    if (wanted(*s)) return s;
  return nullptr;
}

bool RegexSpace::unfolds(Re r) const { return impl_->nodes[r].unfolds; }

}  // namespace structgen
