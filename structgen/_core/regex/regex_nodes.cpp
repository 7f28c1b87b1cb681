// The table of nodes: equal expressions have equal numbers.
//
// Open addressing over a flat array of nodes. A node is found by the hash of its kind, its values and its parts. What
// follows from the parts (nullable, plain, ...) is derived here, once.
#include "regex/regex_nodes.h"

namespace structgen {
namespace {

constexpr uint32_t MAX_CODE = 0x10ffff;
constexpr uint16_t MAX_OPEN_DEPTH = 1'000;

// The characters with this first byte; an empty range for bytes that start no character.
CodeRange led_by(uint32_t b) {
  if (b < 0x80) return {b, b};
  if (b >= 0xc2 && b < 0xe0) return {(b & 0x1f) << 6, ((b & 0x1f) << 6) | 0x3f};
  if (b >= 0xe0 && b < 0xf0) return {std::max(0x800u, (b & 0x0f) << 12), ((b & 0x0f) << 12) | 0xfff};
  if (b >= 0xf0 && b < 0xf5) return {std::max(0x10000u, (b & 7) << 18), std::min(MAX_CODE, ((b & 7) << 18) | 0x3ffff)};
  return {1, 0};
}

}  // namespace

std::vector<CodeRange> characters_led_by(const std::bitset<256> &bytes) {
  std::vector<CodeRange> out;
  auto add = [&](uint32_t lo, uint32_t hi) {
    if (lo > hi) return;
    if (!out.empty() && out.back().hi + 1 == lo) out.back().hi = hi;
    else out.push_back({lo, hi});
  };
  for (uint32_t b = 0; b < 256; ++b) {
    if (!bytes.test(b)) continue;
    CodeRange r = led_by(b);
    add(r.lo, std::min(r.hi, r.lo < 0xd800 ? 0xd7ffu : MAX_CODE));
    if (r.lo <= 0xd800 && r.hi >= 0xe000) add(0xe000, r.hi);
  }
  return out;
}

RegexSpace::RegexSpace(const std::bitset<256> &spellable, RegexLimits limits) : impl_(std::make_unique<Impl>()) {
  Impl &s = *impl_;
  s.spellable = spellable;
  s.limits = limits;
  s.nodes_allowed = limits.max_nodes;
  s.spellable_characters = characters_led_by(spellable);
  for (size_t b = 0x20; b < 0x7f; ++b) s.ascii_complete &= spellable.test(b);
  for (size_t b = 0x80; b < 0xc0; ++b) s.continuations_complete &= spellable.test(b);
  s.slots.resize(64);
  s.intern({.kind = ReKind::Empty}, {});
  s.intern({.kind = ReKind::Epsilon, .nullable = true}, {});
  // ANY_TEXT is number 2 and repeats its character, number 3, which does not exist yet.
  const Re body[] = {3};
  s.intern({.kind = ReKind::Repeat, .nullable = true, .hi = -1}, body);
  const CodeRange all[] = {{0, MAX_CODE}};
  s.any_character = text_class(all);
  if (s.any_character != 3) throw std::invalid_argument("the vocabulary spells no text at all");
  s.nodes[ANY_TEXT].plain = s.nodes[3].plain;
  s.mark = s.intern({.kind = ReKind::Mark, .plain = false, .marked = true}, {});
}

RegexSpace::~RegexSpace() = default;

// Sets what follows from the parts: flags and the depth of open and marked nodes.
void RegexSpace::Impl::inherit(ReNode &n, std::span<const Re> its) const {
  uint32_t depth = 0;
  for (size_t i = 0; i < its.size(); ++i) {
    const ReNode &p = nodes[its[i]];
    n.plain &= p.plain;
    n.unfolds |= p.unfolds;
    n.open |= p.open;
    n.has_look_behind |= p.has_look_behind;
    n.loops |= p.loops;
    n.marked |= p.marked;
    // A loop walks long sequences, so only their heads count as nesting.
    depth = std::max(depth, p.depth + (n.kind == ReKind::Concat && i == 1 ? 0u : 1u));
  }
  const ReNode &last = nodes[its.back()];
  switch (n.kind) {
    case ReKind::Repeat: n.counted = n.lo > 1 || n.hi > 1; break;
    case ReKind::Concat:
      n.counted = last.counted || (nodes[its[0]].kind == ReKind::Repeat && nodes[its[0]].counted);
      break;
    case ReKind::LookAhead: n.open = true; break;
    case ReKind::LookBehind:
      n.open = n.marked;  // look-aheads inside reach beyond this place
      n.marked = n.loops = false;
      n.has_look_behind = true;
      break;
    case ReKind::Loop:
      n.open = false;
      n.loops = true;
      n.marked = last.marked;
      break;
    case ReKind::Guard:
      n.open = false;
      n.has_look_behind = true;
      n.loops = last.loops;
      n.marked = last.marked;
      break;
    case ReKind::Scope: n.has_look_behind = false; break;
    default: break;
  }
  if (!n.open && !n.marked) depth = 0;
  if (depth > MAX_OPEN_DEPTH) throw LimitError("look-arounds are nested more than 1000 deep (limit look_depth)");
  n.depth = static_cast<uint16_t>(depth);
  if (n.kind >= ReKind::LookAhead) n.plain = false;
}

Re RegexSpace::Impl::intern(ReNode n, std::span<const Re> its) {
  charge(2 + its.size());
  uint64_t h = mix(static_cast<uint64_t>(n.kind) << 40 | static_cast<uint64_t>(n.pending) << 32 | n.index,
                   mix(static_cast<uint64_t>(n.lo), static_cast<uint64_t>(n.hi)));
  for (Re p : its) h = mix(h, p);
  const auto hash = static_cast<uint32_t>(h);
  size_t mask = slots.size() - 1, at = hash & mask;
  for (; slots[at].node != EMPTY; at = (at + 1) & mask) {
    charge();
    if (slots[at].hash != hash) continue;
    const ReNode &m = nodes[slots[at].node];
    if (m.kind == n.kind && m.pending == n.pending && m.index == n.index && m.lo == n.lo && m.hi == n.hi &&
        m.count == its.size() && std::equal(its.begin(), its.end(), parts.begin() + m.begin))
      return slots[at].node;
  }
  check_nodes();
  if (n.kind == ReKind::Literals)
    n.one_text = its.size() == 2 && !n.nullable && (its[1] == EPSILON || nodes[its[1]].one_text);
  if (n.kind != ReKind::Literals && !its.empty() && its[0] < nodes.size()) inherit(n, its);
  if ((nodes.size() + 1) * 2 > slots.size()) {
    // subtle: before the node is added, so that a limit leaves the table unchanged.
    widen_slots();
    mask = slots.size() - 1;
    for (at = hash & mask; slots[at].node != EMPTY;) at = (at + 1) & mask;
  }
  n.begin = static_cast<uint32_t>(parts.size());
  n.count = static_cast<uint32_t>(its.size());
  parts.insert(parts.end(), its.begin(), its.end());
  bytes += sizeof(Re) * its.size() + 2 * sizeof(Slot);
  slots[at] = {add_node(n), hash};
  return slots[at].node;
}

void RegexSpace::Impl::check_nodes() const {
  if (nodes.size() >= nodes_allowed)
    throw LimitError("regular expressions need more than " + std::to_string(limits.max_nodes) +
                     " nodes (limit regex_nodes): simplify counted repetitions, negations and look-arounds");
}

Re RegexSpace::Impl::add_node(ReNode node) {
  check_nodes();
  nodes.push_back(node);
  rows.emplace_back();
  bytes += sizeof(ReNode) + sizeof(void *);
  return static_cast<Re>(nodes.size() - 1);
}

void RegexSpace::Impl::widen_slots() {
  std::vector<Slot> wider(slots.size() * 2);
  for (const Slot &old : slots) {
    if (old.node == EMPTY) continue;
    charge();
    size_t to = old.hash & (wider.size() - 1);
    while (wider[to].node != EMPTY) to = (to + 1) & (wider.size() - 1);
    wider[to] = old;
  }
  slots = std::move(wider);
}

uint32_t RegexSpace::Impl::intern_ranges(std::vector<CodeRange> r) {
  charge(1 + r.size());
  uint64_t h = r.size();
  for (CodeRange x : r) h = mix(h, static_cast<uint64_t>(x.lo) << 32 | x.hi);
  auto [first, last] = range_index.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (ranges[it->second] == r) return it->second;
  auto id = static_cast<uint32_t>(ranges.size());
  bytes += r.size() * sizeof(CodeRange) + 64;
  ranges.push_back(std::move(r));
  range_index.emplace(h, id);
  return id;
}

bool RegexSpace::nullable(Re r) const { return impl_->nodes[impl_->closed_form(r)].nullable; }
void RegexSpace::allow_rows(size_t n) {
  impl_->rows_allowed = n > SIZE_MAX - impl_->rows_made ? SIZE_MAX : impl_->rows_made + n;
}
size_t RegexSpace::rows_made() const { return impl_->rows_made; }
size_t RegexSpace::unproven() const { return impl_->unproven; }
std::unordered_set<uint32_t> *RegexSpace::record_assumptions(std::unordered_set<uint32_t> *numbers) {
  return std::exchange(impl_->assumptions, numbers);
}
size_t RegexSpace::memory() const { return impl_->bytes; }
size_t RegexSpace::size() const { return impl_->nodes.size(); }
void RegexSpace::allow_nodes(size_t n) {
  const size_t made = impl_->nodes.size();
  impl_->nodes_allowed = n > SIZE_MAX - made ? SIZE_MAX : made + n;
}

namespace {

void put_character(std::string &out, uint32_t c) {
  if (c >= 0x20 && c < 0x7f) {
    if (std::string_view("\\]^-[").find(static_cast<char>(c)) != std::string_view::npos) out += '\\';
    out += static_cast<char>(c);
    return;
  }
  constexpr char HEX[] = "0123456789abcdef";
  out += "\\u{";
  int shift = 20;
  while (shift > 0 && (c >> shift) == 0) shift -= 4;
  for (; shift >= 0; shift -= 4) out += HEX[c >> shift & 15];
  out += '}';
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): one case for each kind of node; the explicit stack is shared by all
std::string RegexSpace::describe(Re root, size_t limit) const {
  const Impl &s = *impl_;
  std::string out;
  // An explicit stack of what is left to write: nodes and texts.
  struct Item {
    Re r;
    const char *text;
  };
  std::vector<Item> todo{{root, nullptr}};
  auto list = [&](const char *open, const char *between, const std::vector<Re> &parts) {
    todo.push_back({EMPTY, ")"});
    for (size_t i = parts.size(); i-- > 0;) {
      todo.push_back({parts[i], nullptr});
      if (i) todo.push_back({EMPTY, between});
    }
    todo.push_back({EMPTY, open});
  };
  while (!todo.empty() && out.size() <= limit) {
    charge();
    auto [r, text] = todo.back();
    todo.pop_back();
    if (text) {
      out += text;
      continue;
    }
    const ReNode &n = s.nodes[r];
    const std::string count = n.lo == n.hi
                                  ? "{" + std::to_string(n.lo) + "}"
                                  : "{" + std::to_string(n.lo) + "," + (n.hi < 0 ? "" : std::to_string(n.hi)) + "}";
    switch (n.kind) {
      case ReKind::Empty: out += "∅"; break;
      case ReKind::Epsilon: out += "ε"; break;
      case ReKind::Class:
        if (r == s.any_character) {
          out += '.';
          break;
        }
        out += n.pending ? "<" + std::to_string(n.pending) + " bytes of " : "";
        out += '[';
        for (CodeRange x : s.ranges[n.index]) {
          put_character(out, x.lo);
          if (x.hi > x.lo) out += '-', put_character(out, x.hi);
          if (out.size() > limit) break;
        }
        out += n.pending ? "]>" : "]";
        break;
      case ReKind::Concat: list("(", "", s.all_parts(r)); break;
      case ReKind::Alternate: list("(", "|", s.all_parts(r)); break;
      case ReKind::Intersect: list("(", "&", s.all_parts(r)); break;
      case ReKind::Difference:
        list(s.part(r, 0) == ANY_TEXT ? "~(" : "(", "-",
             s.part(r, 0) == ANY_TEXT ? std::vector{s.part(r, 1)} : s.all_parts(r));
        break;
      case ReKind::Repeat:
        if (r == ANY_TEXT) {
          out += ".*";
        } else {
          out += count;
          list("(", "", s.all_parts(r));
        }
        break;
      case ReKind::Literals: {
        // The path to the first branch, then a sign that there is more.
        out += '\'';
        Re x = r;
        while (s.nodes[x].kind == ReKind::Literals && s.nodes[x].count == 2 && out.size() <= limit) {
          charge();
          put_character(out, s.part(x, 0));
          x = s.part(x, 1);
          if (s.nodes[x].kind == ReKind::Literals && s.nodes[x].lo) break;
        }
        out += s.nodes[x].kind == ReKind::Literals ? "...'" : "'";
        break;
      }
      case ReKind::Source: out += "source#" + std::to_string(n.lo); break;
      case ReKind::Machine: out += "machine#" + std::to_string(n.lo); break;
      case ReKind::LookAhead: list(n.index ? "(?!" : "(?=", "", s.all_parts(r)); break;
      case ReKind::LookBehind: list(n.index ? "(?<!" : "(?<=", "", s.all_parts(r)); break;
      case ReKind::Loop:
        out += count;
        list("(", ")(", s.all_parts(r));
        break;
      case ReKind::Guard: list(n.index ? "(?<!" : "(?<=", ")(", s.all_parts(r)); break;
      case ReKind::Scope: list("(?:", "", s.all_parts(r)); break;
      case ReKind::Mark: out += "here"; break;
    }
  }
  if (out.size() > limit) {
    while (limit > 0 && (static_cast<uint8_t>(out[limit]) & 0xc0) == 0x80) --limit;
    out.resize(limit);
    out += "...";
  }
  return out;
}

}  // namespace structgen
