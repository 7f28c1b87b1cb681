// Shortest texts of plain expressions, by structure.
//
// A plain expression (regex/regex_nodes.h) needs no search: the shortest text of a sequence is that of its parts in a
// row, that of a union the shortest of its alternatives. A search over derivatives would find it, too, but not after a
// thousand ambiguous repetitions.
//
// Also here: all texts of an expression that has few.
//
// Cost: the size of the expression, once, and the length of the text.
#include "regex/regex_nodes.h"

namespace structgen {
namespace {

constexpr int64_t LONGEST_OF_FEW = 64;
constexpr int64_t TOO_LONG = 1 << 24;  // bytes of a text that is not worth writing

// A readable character of the class, or its first one.
uint32_t readable(const std::vector<CodeRange> &ranges) {
  for (uint32_t wanted : {'a', '0', 'A', ' '})
    for (CodeRange x : ranges)
      if (x.lo <= wanted && wanted <= x.hi) return wanted;
  return ranges.front().lo;
}

void write_character(uint32_t c, std::string *out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr uint32_t FIRST[] = {0, 0xc0, 0xe0, 0xf0};
  *out += static_cast<char>(FIRST[more] | c >> (6 * more));
  for (int i = more; i-- > 0;) *out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
}

int64_t encoded_length(uint32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

std::string_view shortest_of(const std::vector<std::string_view> &texts) {
  return *std::min_element(texts.begin(), texts.end(), [](std::string_view a, std::string_view b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
}

}  // namespace

// In bytes. TOO_LONG if it is longer, or if the structure does not show it.
int64_t RegexSpace::Impl::shortest_length(Re root) {
  std::vector<Re> stack{root};
  while (!stack.empty()) {
    charge();
    const Re r = stack.back();
    if (shortest_lengths.contains(r)) {
      stack.pop_back();
      continue;
    }
    const size_t before = stack.size();
    const ReNode n = nodes[r];
    const bool trie = n.kind == ReKind::Literals;
    for (uint32_t i = trie; n.plain && i < n.count; i += 1 + trie)
      if (!shortest_lengths.contains(part(r, i))) stack.push_back(part(r, i));
    if (stack.size() > before) continue;
    stack.pop_back();
    auto of = [&](uint32_t i) { return shortest_lengths.at(part(r, i)); };
    int64_t length = TOO_LONG;
    if (n.plain) switch (n.kind) {
        case ReKind::Epsilon: length = 0; break;
        case ReKind::Class: length = n.pending > 0 ? n.pending : encoded_length(readable(ranges[n.index])); break;
        case ReKind::Concat: length = of(0) + of(1); break;
        case ReKind::Alternate:
          for (uint32_t i = 0; i < n.count; ++i) length = std::min(length, of(i));
          break;
        case ReKind::Repeat: length = n.lo == 0 || of(0) == 0 ? 0 : n.lo >= TOO_LONG ? TOO_LONG : n.lo * of(0); break;
        case ReKind::Literals:
          if (is_run(r)) length = static_cast<int64_t>(shortest_of(rests_of_run(r)).size());
          for (uint32_t i = 1; i < n.count; i += 2) length = std::min(length, 1 + of(i));
          if (n.lo) length = 0;
          break;
        case ReKind::Source:
          if (std::string text; n.nullable || sources[n.index]->completion(static_cast<uint64_t>(n.lo), &text))
            length = static_cast<int64_t>(text.size());
          break;
        default: break;
      }
    shortest_lengths.emplace(r, std::min(length, TOO_LONG));
    bytes += 64;
  }
  return shortest_lengths.at(root);
}

bool RegexSpace::Impl::shortest_plain(Re root, std::string *out) {
  if (shortest_length(root) >= TOO_LONG) return false;
  struct Task {
    Re r;
    int64_t times;
  };
  std::vector<Task> stack{{root, 1}};
  while (!stack.empty()) {
    charge();
    const Re r = stack.back().r;
    if (--stack.back().times <= 0) stack.pop_back();
    const ReNode &n = nodes[r];
    const int64_t length = shortest_lengths.at(r);
    if (length == 0) continue;
    switch (n.kind) {
      case ReKind::Class: {
        const uint32_t c = readable(ranges[n.index]);
        if (n.pending == 0) write_character(c, out);
        else
          for (int i = n.pending; i-- > 0;)
            *out += static_cast<char>(0x80 | (ranges[n.index].front().lo >> (6 * i) & 0x3f));
        break;
      }
      case ReKind::Concat:
        stack.push_back({part(r, 1), 1});
        stack.push_back({part(r, 0), 1});
        break;
      case ReKind::Alternate:
        for (uint32_t i = 0; i < n.count; ++i)
          if (shortest_lengths.at(part(r, i)) == length) {
            stack.push_back({part(r, i), 1});
            break;
          }
        break;
      case ReKind::Repeat: stack.push_back({part(r, 0), n.lo}); break;
      case ReKind::Source:
        if (!n.nullable && !sources[n.index]->completion(static_cast<uint64_t>(n.lo), out)) return false;
        break;
      default:  // Literals
        if (is_run(r)) *out += shortest_of(rests_of_run(r));
        for (uint32_t i = 1; i < n.count; i += 2)
          if (shortest_lengths.at(part(r, i)) + 1 == length) {
            *out += static_cast<char>(part(r, i - 1));
            stack.push_back({part(r, i), 1});
            break;
          }
        break;
    }
  }
  return true;
}

bool RegexSpace::shortest_by_structure(Re r, std::string *out) { return impl_->shortest_plain(r, out); }

bool RegexSpace::few_texts(Re root, size_t most, std::vector<std::string> *out) {
  Impl &s = *impl_;
  if (!s.nodes[root].plain || s.nodes[root].unfolds) return false;
  const Lengths &lengths = s.lengths_of(root);
  if (!lengths.known || lengths.intervals.empty() || lengths.intervals.back().hi > LONGEST_OF_FEW) return false;
  std::vector<std::pair<Re, std::string>> todo{{root, ""}};
  std::vector<std::string> found;
  while (!todo.empty()) {
    charge();
    auto [r, text] = std::move(todo.back());
    todo.pop_back();
    if (s.nodes[r].nullable) found.push_back(text);
    if (r == EPSILON) continue;
    const Steps all = s.steps(r);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].to == EMPTY) continue;
      const size_t end = i + 1 < all.size() ? all[i + 1].from : 256;
      // Each state has a text of its own still to come.
      if (found.size() + todo.size() + (end - all[i].from) > most) return false;
      for (size_t b = all[i].from; b < end; ++b) todo.emplace_back(all[i].to, text + static_cast<char>(b));
    }
  }
  out->insert(out->end(), found.begin(), found.end());
  return true;
}

}  // namespace structgen
