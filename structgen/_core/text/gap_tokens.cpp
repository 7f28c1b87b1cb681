#include "text/gap_tokens.h"

#include <algorithm>
#include <string_view>

#include "text/json_space.h"
#include "util/stack.h"
#include "util/work.h"

namespace structgen {
namespace {

// Can a text that starts with one or more JSON tokens begin like this?
bool begins_tokens(std::string_view text) {
  for (const std::string_view literal : {"true", "false", "null"})
    if (text[0] == literal[0]) return text.substr(0, literal.size()) == literal.substr(0, text.size());
  return std::string_view("\"{}[],:-0123456789").find(text[0]) != std::string_view::npos;
}

}  // namespace

GapTokens gap_tokens(const Vocabulary &vocabulary, const JsonOptions &options) {
  GapTokens found;
  std::vector<RestTrie::Rest> rests;
  const auto visit = [&](const auto &self, Vocabulary::Node at, uint16_t space) -> void {
    charge();
    check_stack("a token is too long");
    if (space != SPACE_RETURN || vocabulary.spellable().test('\n'))
      found.blank.insert(found.blank.end(), vocabulary.ids(at).begin(), vocabulary.ids(at).end());
    for (const Vocabulary::Child *c = vocabulary.children(at); !c->is_end; ++c) {
      if (is_space(c->byte)) {
        const int next = space_step(options, space, c->byte, 0);
        if (next >= 0) self(self, c->node, static_cast<uint16_t>(next));
      } else if (space_allows(options, space, c->byte)) {
        const size_t skip = vocabulary.depth(at);
        for (Vocabulary::Node n = c->node; n < vocabulary.end(c->node);) {
          charge();
          if (!begins_tokens(std::string_view(vocabulary.path(n)).substr(skip))) {
            n = vocabulary.end(n);
            continue;
          }
          for (const uint32_t id : vocabulary.ids(n)) rests.push_back({vocabulary.token(id).substr(skip), {id, 0}});
          ++n;
        }
      }
    }
  };
  for (const uint8_t b : {' ', '\t', '\n', '\r'}) {
    const Vocabulary::Node node = vocabulary.root_child(b);
    const int space = space_step(options, space_start(options, SpaceAt::AfterColon), b, 0);
    if (node != Vocabulary::NONE && space >= 0) visit(visit, node, static_cast<uint16_t>(space));
  }
  found.rests = RestTrie(std::move(rests));
  return found;
}

}  // namespace structgen
