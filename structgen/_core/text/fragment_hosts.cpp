// Fragments of texts that contain internationalised host names.
#include <algorithm>

#include "text/text_space.h"
#include "util/bits.h"

namespace structgen {
namespace {

// Adds the tokens and exits of `from` to `to`.
void unite(Fragment &to, const Fragment &from, uint32_t words) {
  if (!from.bits.empty()) add_bits(to.bits.data(), from.bits.data(), words);
  for (const uint32_t id : from.ids) to.bits[id >> 5] |= 1u << (id & 31);
  const auto middle = static_cast<std::ptrdiff_t>(to.exits.size());
  to.exits.insert(to.exits.end(), from.exits.begin(), from.exits.end());
  const auto by_node = [](const Exit &a, const Exit &b) { return a.node < b.node; };
  std::inplace_merge(to.exits.begin(), to.exits.begin() + middle, to.exits.end(), by_node);
  const auto same_node = [](const Exit &a, const Exit &b) { return a.node == b.node; };
  to.exits.erase(std::unique(to.exits.begin(), to.exits.end(), same_node), to.exits.end());
}

}  // namespace

const HostTokens &TextSpace::host_tokens(const HostNameMachine &machine) {
  // subtle: all such machines read characters in the same way, so one table serves all of them.
  if (!host_tokens_) {
    host_tokens_ = std::make_unique<const HostTokens>(machine, *vocabulary_);
    table_bytes_ += host_tokens_->memory();
  }
  return *host_tokens_;
}

void TextSpace::prepare_host_names() {
  if (host_tokens_) return;
  const auto is_host_names = [](const Machine &m) { return dynamic_cast<const HostNameMachine *>(&m) != nullptr; };
  if (const auto machine = regex_.find_machine(is_host_names))
    host_tokens(static_cast<const HostNameMachine &>(*machine));
}

std::optional<TextSpace::HostNamesAt> TextSpace::host_names_at(Re re) const {
  const auto leaf = regex_.spelled_machine(re);
  if (!leaf) return std::nullopt;
  auto machine = std::dynamic_pointer_cast<const HostNameMachine>(leaf->first);
  if (!machine) return std::nullopt;
  return HostNamesAt{std::move(machine), leaf->second};
}

bool TextSpace::reads_host_names(TextState s) const {
  return states_[s].encoding == Encoding::Canonical && escape(s) == 0 && host_names_at(re(s)).has_value();
}

std::unique_ptr<Fragment> TextSpace::of_host_names(const HostNamesAt &at, std::vector<TokensByEnd> *by_end) {
  auto made = std::make_unique<Fragment>();
  made->dense = true;
  made->bits.assign(vocabulary_->words(), 0);
  const HostTokens::Found found = host_tokens(*at.machine).after(*at.machine, at.state, by_end != nullptr);
  made->needs = 0;
  std::unordered_map<uint64_t, size_t> groups;  // in `by_end`
  for (const HostTokens::Group &group : found.groups) {
    charge(1 + group.ids.size() / 16);
    for (const uint32_t id : group.ids) made->bits[id >> 5] |= 1u << (id & 31);
    made->needs = std::max<int64_t>(made->needs, group.characters + *at.machine->most_missing());
    if (!by_end) continue;
    const auto [it, fresh] = groups.try_emplace(group.state, by_end->size());
    if (fresh) by_end->push_back({state(regex_.machine(at.machine, group.state), 0, Encoding::Canonical), {}, nullptr});
    std::vector<TokensByEnd::Token> &tokens = (*by_end)[it->second].tokens;
    for (const uint32_t id : group.ids) tokens.push_back({id, group.characters});
  }
  for (const HostTokens::Quote &quote : found.quotes) made->exits.push_back({quote.node, quote.characters});
  return made;
}

std::unique_ptr<Fragment> TextSpace::with_host_names(TextState s, std::vector<TokensByEnd> *by_end) {
  if (const std::optional<HostNamesAt> at = host_names_at(re(s))) return of_host_names(*at, by_end);
  const std::vector<Re> parts = regex_.alternatives(re(s));
  if (std::none_of(parts.begin(), parts.end(), [&](Re part) { return host_names_at(part).has_value(); }))
    return nullptr;
  auto made = std::make_unique<Fragment>();
  made->dense = true;
  made->bits.assign(vocabulary_->words(), 0);
  for (const Re part : parts) {
    const TextState of_part = state(part, 0, Encoding::Canonical);
    unite(*made, *walk(Vocabulary::ROOT, of_part, by_end), vocabulary_->words());
  }
  return made;
}

}  // namespace structgen
