// The bytes of an expression's texts, and expressions restricted to them.
//
// All texts of an intersection consist of bytes that occur in the texts of every operand. Each operand can therefore be
// restricted to these bytes: classes lose characters, and a sequence with an empty class vanishes. `.*é.*` restricted
// to ASCII is EMPTY, so the intersection with an e-mail address is empty, too. A search over derivatives would visit
// all states of the address before it could tell.
//
// Subtracted operands, look-arounds and sources stay as they are. A restricted expression has at least the texts that
// consist of the given bytes, and at most those of the expression itself. A restricted intersection therefore has
// exactly the texts of the intersection.
#include "regex/regex_nodes.h"

namespace structgen {
namespace {

constexpr size_t MAX_RESTRICTED = 20'000;  // pairs of expression and alphabet; larger expressions stay as they are
constexpr int MAX_ROUNDS = 4;              // restrictions, each of which may leave fewer bytes for the next

}  // namespace

bool RegexSpace::Impl::is_opaque(Re r) const {
  const ReNode &n = nodes[r];
  return n.open || n.marked || n.has_look_behind || n.kind >= ReKind::Source || is_run(r);
}

// The operands that decide which bytes occur; of a class, what remains after its first bytes.
std::vector<Re> RegexSpace::Impl::parts_with_bytes(Re r) {
  std::vector<Re> out;
  if (is_opaque(r)) return out;
  switch (nodes[r].kind) {
    case ReKind::Class:
      make_steps(r, false);
      for (uint32_t i = 0; i < nodes[r].step_count; ++i) out.push_back(nodes[r].steps[i].to);
      return out;
    case ReKind::Literals:
      for (uint32_t i = 1; i < nodes[r].count; i += 2) out.push_back(part(r, i));
      return out;
    case ReKind::Difference: return {part(r, 0)};
    default: return all_parts(r);
  }
}

std::bitset<256> RegexSpace::Impl::own_bytes(Re r, const std::vector<Re> &its) const {
  const ReNode &n = nodes[r];
  std::bitset<256> out;
  if (is_opaque(r)) return out.set();
  if (n.kind == ReKind::Intersect) out.set();
  for (Re p : its) out = n.kind == ReKind::Intersect ? out & alphabets.at(p) : out | alphabets.at(p);
  if (n.kind == ReKind::Class) {
    for (uint32_t i = 0; i < n.step_count; ++i) {
      const size_t end = i + 1u < n.step_count ? n.steps[i + 1].from : 256;
      for (size_t b = n.steps[i].from; n.steps[i].to != EMPTY && b < end; ++b) out.set(b);
    }
  } else if (n.kind == ReKind::Literals) {
    for (uint32_t i = 0; i < n.count; i += 2) out.set(part(r, i));
  } else if (n.kind == ReKind::Machine) {
    const std::string_view listed = machines[n.index]->alphabet();
    for (char c : listed) out.set(static_cast<unsigned char>(c));
    for (size_t b = 0; listed.empty() && b < 128; ++b) out.set(b);
  }
  return out;
}

// All bytes that occur in texts of `r`, and possibly others.
std::bitset<256> RegexSpace::Impl::bytes_of(Re root) {
  std::vector<Re> stack{root};
  while (!stack.empty()) {
    charge();
    const Re r = stack.back();
    const std::vector<Re> its = alphabets.contains(r) ? std::vector<Re>{} : parts_with_bytes(r);
    const size_t before = stack.size();
    for (Re p : its)
      if (!alphabets.contains(p)) stack.push_back(p);
    if (stack.size() > before) continue;
    stack.pop_back();
    if (alphabets.emplace(r, std::bitset<256>()).second) {
      alphabets[r] = own_bytes(r, its);
      bytes += 64;
    }
  }
  return alphabets.at(root);
}

// Restricts expressions from their operands up. An intersection restricts its operands to fewer bytes than itself.
class RegexSpace::Impl::Restriction {
 public:
  explicit Restriction(Impl &space) : s_(space), alphabets_{std::bitset<256>().set()} {}

  Re restrict(Re root) {
    std::vector<Key> stack{{root, 0}};
    while (!stack.empty()) {
      charge();
      const Key key = stack.back();
      if (done_.size() > MAX_RESTRICTED) return root;
      const std::vector<Key> needed = done_.contains(number(key)) ? std::vector<Key>{} : operands(key);
      const size_t before = stack.size();
      for (const Key &k : needed)
        if (!done_.contains(number(k))) stack.push_back(k);
      if (stack.size() > before) continue;
      stack.pop_back();
      if (!done_.contains(number(key))) done_.emplace(number(key), rebuild(key, needed));
    }
    return result({root, 0});
  }

 private:
  struct Key {
    Re r;
    uint32_t alphabet;
  };
  static uint64_t number(Key k) { return static_cast<uint64_t>(k.alphabet) << 32 | k.r; }
  Re result(Key k) const { return done_.at(number(k)); }

  uint32_t number_of(const std::bitset<256> &alphabet) {
    const auto at = static_cast<size_t>(std::find(alphabets_.begin(), alphabets_.end(), alphabet) - alphabets_.begin());
    if (at == alphabets_.size()) alphabets_.push_back(alphabet);
    return static_cast<uint32_t>(at);
  }
  bool is_unchanged(Key k) {
    return s_.is_opaque(k.r) || (s_.nodes[k.r].plain && (s_.bytes_of(k.r) & ~alphabets_[k.alphabet]).none());
  }

  std::vector<Key> operands(Key k) {
    if (is_unchanged(k)) return {};
    uint32_t alphabet = k.alphabet;
    switch (s_.nodes[k.r].kind) {
      case ReKind::Class:
      case ReKind::Machine: return {};
      case ReKind::Intersect: alphabet = number_of(alphabets_[k.alphabet] & s_.bytes_of(k.r)); break;
      default: break;
    }
    std::vector<Key> out;
    for (Re p : s_.parts_with_bytes(k.r)) out.push_back({p, alphabet});
    return out;
  }

  Re rebuild(Key k, const std::vector<Key> &its) {
    const ReNode n = s_.nodes[k.r];
    const std::bitset<256> alphabet = alphabets_[k.alphabet];
    if (is_unchanged(k)) return k.r;
    std::vector<Re> to;
    for (const Key &p : its) to.push_back(result(p));
    switch (n.kind) {
      case ReKind::Class:
        if (n.pending == 0) return s_.make_class(in_both(s_.ranges[n.index], characters_led_by(alphabet)), 0);
        return (s_.bytes_of(k.r) & alphabet).none() ? EMPTY : k.r;
      case ReKind::Machine: return !n.nullable && (s_.bytes_of(k.r) & alphabet).none() ? EMPTY : k.r;
      case ReKind::Literals:
        for (uint32_t i = 0; i < to.size(); ++i)
          if (n.lo || (to[i] != EMPTY && alphabet.test(s_.part(k.r, 2 * i)))) return k.r;
        return EMPTY;
      case ReKind::Concat: return s_.concat(to[0], to[1]);
      case ReKind::Alternate: return s_.alternate(to);
      case ReKind::Intersect: return s_.intersect(to);
      case ReKind::Difference: return s_.difference(to[0], s_.part(k.r, 1));
      case ReKind::Repeat: return s_.repeat(to[0], n.lo, n.hi);
      default: return k.r;
    }
  }

  Impl &s_;
  std::vector<std::bitset<256>> alphabets_;  // the first one has all bytes
  std::unordered_map<uint64_t, Re> done_;
};

Re RegexSpace::Impl::restricted(Re r) {
  for (int round = 0; round < MAX_ROUNDS; ++round) {
    const Re narrower = Restriction(*this).restrict(r);
    if (narrower == r) break;
    r = narrower;
  }
  return r;
}

}  // namespace structgen
