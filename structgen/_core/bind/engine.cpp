// Python bindings of the token level: Vocabulary, Engine, Program, Matcher, fill_masks.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <set>

#include "automaton/key_offers.h"
#include "bind/explain.h"
#include "bind/gil.h"
#include "bind/grammar_ir.h"
#include "bind/schema_ir.h"
#include "matcher/matcher.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace structgen {
namespace {

// Owns the text space of a vocabulary. Once a space has outgrown its budget, only the programs that already use it keep
// it, and new programs get a new space.
class Engine {
 public:
  Engine(std::shared_ptr<const Vocabulary> vocabulary, Limits limits)
      : vocabulary_(std::move(vocabulary)), limits_(limits) {
    begin();
  }

  std::shared_ptr<Program> compile(nb::handle ir) {
    // subtle: while a thread waits without the GIL, another thread may replace the members. So it works on copies.
    std::shared_ptr<TextSpace> space;
    std::shared_ptr<RegexCache> cache;
    std::unique_lock<ForkMutex> lock;
    for (bool renewed = false;; renewed = true) {
      space = space_;
      cache = cache_;
      lock = wait_for(*space);
      if (renewed || has_room(*space)) break;  // subtle: even a new space may exceed a small limit
      lock.unlock();
      if (space == space_) begin();
    }
    const Call call(Program::multiply(limits_.call_steps, Program::SEARCH));
    auto heap = std::make_shared<HeapAccount>();
    const HeapCharge charge(heap, space->heap(), limits_.program_bytes);
    RegexSpace &regex = space->regex();
    regex.allow_rows(limits_.automaton_states);
    regex.allow_nodes(limits_.regex.max_nodes);
    const size_t nodes = regex.size();
    std::unordered_set<uint32_t> assumptions;
    const AssumptionRecord record(regex, assumptions);
    std::unique_ptr<Plan> plan = plan_from_ir({ir, "the constraint"}, *space, *cache);
    return std::make_shared<Program>(std::move(plan), space, heap, regex.size() - nodes, std::move(assumptions));
  }

  size_t memory() const { return space_->memory(); }
  size_t mask_memory() const { return space_->mask_pool()->bytes_in_use(); }  // of all programs
  const std::shared_ptr<const Vocabulary> &vocabulary() const { return vocabulary_; }

 private:
  // subtle: one constraint may have reached the limit `regex_nodes`. Later constraints must not fail for that reason.
  bool has_room(TextSpace &space) const {
    return space.memory() <= limits_.space_bytes && space.regex().size() < MOST_NODES;
  }
  static std::unique_lock<ForkMutex> wait_for(TextSpace &space) {
    WithoutGil release;  // another thread may be filling masks
    return space.hold();
  }

  // Bounds a space that new programs may use. It may grow beyond, since programs have limits of their own.
  static constexpr size_t MOST_NODES = 2'000'000;

  void begin() {
    const auto heap = std::make_shared<HeapAccount>();
    const HeapCharge charge(HeapCharge::NO_PROGRAM, heap, SIZE_MAX);
    space_ = std::make_shared<TextSpace>(vocabulary_, limits_, heap);
    cache_ = std::make_shared<RegexCache>();
    // Every schema needs the inside of a free string.
    for (const char *path : {"", "\"", " \""}) {
      Vocabulary::Node n = Vocabulary::ROOT;
      for (const char *c = path; *c && n != Vocabulary::NONE; ++c) n = vocabulary_->child(n, static_cast<uint8_t>(*c));
      if (n == Vocabulary::NONE) continue;
      Fragment &f = space_->fragment(n, space_->state(RegexSpace::ANY_TEXT, 0, Encoding::Canonical));
      if (n == Vocabulary::ROOT) space_->rests(f);
    }
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
  Limits limits_;
  std::shared_ptr<TextSpace> space_;
  std::shared_ptr<RegexCache> cache_;
};

Limits limits_from(nb::dict d) {
  Limits l;
  const std::vector<std::pair<const char *, std::function<void(nb::handle)>>> fields = {
      {"regex_nodes", [&](nb::handle v) { l.regex.max_nodes = nb::cast<size_t>(v); }},
      {"emptiness_budget", [&](nb::handle v) { l.regex.emptiness_budget = nb::cast<size_t>(v); }},
      {"oracle_budget", [&](nb::handle v) { l.oracle_budget = nb::cast<size_t>(v); }},
      {"automaton_states", [&](nb::handle v) { l.automaton_states = nb::cast<size_t>(v); }},
      {"mask_cache_bytes", [&](nb::handle v) { l.mask_cache_bytes = nb::cast<size_t>(v); }},
      {"fragment_cache_bytes", [&](nb::handle v) { l.fragment_cache_bytes = nb::cast<size_t>(v); }},
      {"space_bytes", [&](nb::handle v) { l.space_bytes = nb::cast<size_t>(v); }},
      {"max_depth", [&](nb::handle v) { l.max_depth = nb::cast<uint32_t>(v); }},
      {"max_alternatives", [&](nb::handle v) { l.max_alternatives = nb::cast<size_t>(v); }},
      {"mask_steps", [&](nb::handle v) { l.mask_steps = nb::cast<size_t>(v); }},
      {"earley_items", [&](nb::handle v) { l.earley_items = nb::cast<size_t>(v); }},
      {"program_bytes", [&](nb::handle v) { l.program_bytes = nb::cast<size_t>(v); }},
      {"call_steps", [&](nb::handle v) { l.call_steps = nb::cast<size_t>(v); }},
      {"listed_containers", [&](nb::handle v) { l.listed_containers = nb::cast<size_t>(v); }},
  };
  for (auto [key, value] : d) {
    std::string name = nb::cast<std::string>(key);
    auto it = std::find_if(fields.begin(), fields.end(), [&](auto &f) { return name == f.first; });
    if (it == fields.end()) throw std::invalid_argument("unknown limit: " + name);
    it->second(value);
  }
  return l;
}

nb::bytes to_bytes(std::string_view s) { return nb::bytes(s.data(), s.size()); }
std::string_view as_view(const nb::bytes &b) { return {b.c_str(), b.size()}; }

using MaskArray = nb::ndarray<nb::numpy, const int32_t, nb::ndim<1>>;

MaskArray to_array(std::shared_ptr<const Mask> mask) {
  const std::span<const uint32_t> bits = mask->bits();
  auto *held = new std::shared_ptr<const Mask>(std::move(mask));
  nb::capsule owner(held, [](void *p) noexcept { delete static_cast<std::shared_ptr<const Mask> *>(p); });
  return MaskArray(reinterpret_cast<const int32_t *>(bits.data()), {bits.size()}, owner);
}

// Wraps a method of `Matcher` that one thread at a time may call.
template <auto Method>
struct Exclusive;
template <class R, class... Args, R (Matcher::*Method)(Args...)>
struct Exclusive<Method> {
  static R call(Matcher &self, Args... args) {
    const Use use(self.in_use());
    return (self.*Method)(args...);
  }
};
template <class R, class... Args, R (Matcher::*Method)(Args...) const>
struct Exclusive<Method> {
  static R call(Matcher &self, Args... args) {
    const Use use(self.in_use());
    return (self.*Method)(args...);
  }
};
template <auto Method>
constexpr auto *exclusive = &Exclusive<Method>::call;

void register_token_error() {
  nb::register_exception_translator([](const std::exception_ptr &raised, void *) {
    try {
      std::rethrow_exception(raised);
    } catch (const TokenError &error) {
      const nb::object kind = nb::module_::import_("structgen.errors").attr("VocabularyMismatch");
      const nb::object made = kind(error.what(), "where"_a = error.where, "hint"_a = error.hint);
      PyErr_SetObject(kind.ptr(), made.ptr());
    }
  });
}

void bind_vocabulary(nb::module_ &m) {
  nb::class_<Vocabulary>(m, "Vocabulary")
      .def(
          "__init__",
          [](Vocabulary *self, nb::list tokens, std::vector<uint32_t> eos_ids, uint32_t size,
             std::unordered_map<std::string, uint32_t> specials) {
            std::vector<std::string> texts;
            texts.reserve(tokens.size());
            for (nb::handle t : tokens) {
              if (t.is(nb::none())) texts.emplace_back();
              else texts.emplace_back(as_view(nb::cast<nb::bytes>(t)));
            }
            new (self) Vocabulary(std::move(texts), std::move(eos_ids), size, std::move(specials));
          },
          "tokens"_a, "eos_ids"_a, "size"_a, "specials"_a = std::unordered_map<std::string, uint32_t>{})
      .def_prop_ro("size", &Vocabulary::size)
      .def_prop_ro("words", &Vocabulary::words)
      .def_prop_ro("eos_ids", &Vocabulary::eos_ids)
      .def_prop_ro("node_count", &Vocabulary::node_count)
      .def_prop_ro("memory", &Vocabulary::memory)
      .def("token_bytes", [](const Vocabulary &v, uint32_t id) { return to_bytes(v.token(id)); })
      .def("fewest_tokens", [](const Vocabulary &v, nb::bytes text) { return v.fewest_tokens(as_view(text)); })
      .def("missing_bytes", [](const Vocabulary &v) {
        std::string out;
        for (int b = 0; b < 256; ++b)
          if (!v.spellable().test(static_cast<size_t>(b))) out += static_cast<char>(b);
        return to_bytes(out);
      });
}

void bind_program(nb::module_ &m) {
  nb::class_<Program>(m, "Program")
      // None if some text satisfies the schema. Otherwise the pointers of the sub-schemas that cause it, if known.
      .def("empty_parts",
           [](std::shared_ptr<Program> p) {
             return without_gil([&]() -> std::optional<std::vector<std::string>> {
               std::vector<std::string> out;
               if (!p->has_text()) {
                 Program::Turn turn(*p);
                 const Plan &plan = p->automaton().plan();
                 if (plan.json)
                   for (SchemaId id : plan.json->unsatisfiable_schemas())
                     out.push_back(plan.json->schema().nodes[id].pointer);
                 return out;
               }
               if (!p->space().vocabulary().closed() && Matcher(p).has_no_spelling()) return out;
               return std::nullopt;
             });
           })
      // A short text, and whether it is proven to be a shortest one. None if no text was found, or the constraint is
      // not a JSON Schema.
      .def("shortest",
           [](Program &p) -> std::optional<std::tuple<nb::bytes, bool>> {
             std::string out;
             bool exact = false;
             if (!without_gil([&] { return p.shortest(&out, &exact); })) return std::nullopt;
             return std::make_tuple(to_bytes(out), exact);
           })
      .def_prop_ro("unproven",
                   [](Program &p) {
                     return without_gil([&] {
                       Program::Turn turn(p);
                       return p.unproven();
                     });
                   })
      // Does not hold the space, so that it can be read during a long call of another thread.
      .def_prop_ro("memory", &Program::memory)
      .def_prop_ro("names_text_tokens", &Program::names_text_tokens)
      // Units of work that steps and masks in grammars have taken so far (automaton/automaton.h).
      .def_prop_ro("grammar_work",
                   [](Program &p) {
                     return without_gil([&] {
                       Program::Turn turn(p);
                       return p.automaton().work();
                     });
                   })
      // The numbers of masks that were found in the cache, and that were built.
      .def_prop_ro("mask_hits",
                   [](Program &p) {
                     return without_gil([&] {
                       Program::Turn turn(p);
                       return p.masks().hits();
                     });
                   })
      .def_prop_ro("mask_misses", [](Program &p) {
        return without_gil([&] {
          Program::Turn turn(p);
          return p.masks().misses();
        });
      });
}

// Masks and what follows from them: forced tokens, lexemes, the end of the text.
void bind_matcher_masks(nb::class_<Matcher> &matcher) {
  matcher.def(nb::init<std::shared_ptr<Program>>(), "program"_a, nb::call_guard<WithoutGil>())
      .def(
          "mask", [](Matcher &self) { return to_array(used_without_gil(self, [&] { return self.mask(); })); },
          nb::rv_policy::reference)
      .def("lexemes", exclusive<&Matcher::lexemes>, nb::call_guard<WithoutGil>())
      // Positions of places, whether the text may end there, (place, terminal, place) edges, open (place, terminal or
      // -1) pairs, and how many units were read.
      .def(
          "trace",
          [](Matcher &self, std::vector<uint32_t> units) {
            const GrammarTrace found = used_without_gil(self, [&] { return self.trace(units); });
            nb::list edges, open;
            for (const auto &e : found.places.edges) edges.append(nb::make_tuple(e.from, e.terminal, e.to));
            for (const auto &[place, terminal] : found.open)
              open.append(
                  nb::make_tuple(place, terminal == GrammarTrace::NO_TERMINAL ? int64_t{-1} : int64_t{terminal}));
            return nb::make_tuple(found.places.positions, found.places.accepting, edges, open, found.read);
          },
          "units"_a)
      .def_prop_ro("sets_temperature",
                   [](Matcher &self) { return sets_temperature(self.program().automaton().plan()); })
      .def_prop_ro("temperature",
                   [](Matcher &self) { return used_without_gil(self, [&] { return self.temperature(); }); })
      .def(
          "beginning",
          [](Matcher &self, size_t place, uint32_t terminal) {
            return to_array(used_without_gil(self, [&] { return self.beginning(place, terminal); }));
          },
          "place"_a, "terminal"_a, nb::rv_policy::reference)
      .def(
          "fill",
          [](Matcher &self, nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, size_t row) {
            if (row >= out.shape(0)) throw std::out_of_range("row is outside the bitmask");
            int32_t *to = out.data() + row * out.shape(1);
            size_t words = out.shape(1);
            Matcher *matchers[] = {&self};
            used_without_gil(self, [&] { fill_masks(matchers, to, words, 1); });
          },
          "out"_a, "row"_a = 0)
      .def("allowed_count", [](Matcher &self) { return used_without_gil(self, [&] { return self.mask()->count(); }); })
      .def_prop_ro("is_universal",
                   [](Matcher &self) { return used_without_gil(self, [&] { return self.accepts_everything(); }); })
      .def("forced", exclusive<&Matcher::forced>, "most"_a = 256, nb::call_guard<WithoutGil>())
      .def(
          "forced_bytes",
          [](Matcher &self, size_t most) {
            return to_bytes(used_without_gil(self, [&] { return self.forced_bytes(most); }));
          },
          "most"_a = 4096)
      .def_prop_ro("must_stop", [](Matcher &self) {
        const auto mask = used_without_gil(self, [&] { return self.mask(); });
        return mask->complete && mask->count() <= self.program().space().vocabulary().eos_ids().size();
      });
}

// The sequence of tokens, and its state.
void bind_matcher_steps(nb::class_<Matcher> &matcher) {
  matcher.def("advance", exclusive<&Matcher::advance>, "token"_a, nb::call_guard<WithoutGil>())
      .def(
          "begin",
          [](Matcher &self, nb::bytes text) {
            const std::string_view view = as_view(text);
            return used_without_gil(self, [&] { return self.begin(view); });
          },
          "text"_a)
      .def(
          "accepts",
          [](Matcher &self, std::vector<uint32_t> tokens) {
            return used_without_gil(self, [&] { return self.accepts(tokens); });
          },
          "tokens"_a)
      .def("rollback", exclusive<&Matcher::rollback>, "n"_a)
      .def("fork", exclusive<&Matcher::fork>)
      .def("reset", exclusive<&Matcher::reset>)
      .def("is_complete", exclusive<&Matcher::complete>, nb::call_guard<WithoutGil>())
      .def_prop_ro("is_finished", exclusive<&Matcher::finished>)
      .def_prop_ro("is_dead", exclusive<&Matcher::dead>)
      .def_prop_ro("tokens", exclusive<&Matcher::tokens>)
      .def_prop_ro("text", [](Matcher &self) { return to_bytes(exclusive<&Matcher::text>(self)); })
      .def_prop_ro("memory", exclusive<&Matcher::memory>)
      .def(
          "viable_bytes",
          [](Matcher &self, nb::bytes text) {
            const std::string_view view = as_view(text);
            return used_without_gil(self, [&] { return self.viable_bytes(view); });
          },
          "text"_a);
}

// The tokens that may follow a text, and its completions.
void bind_matcher_completions(nb::class_<Matcher> &matcher) {
  matcher
      .def(
          "next_bytes",
          [](Matcher &self, nb::bytes after) {
            bool may_end = false;
            const std::string_view view = as_view(after);
            const std::bitset<256> next = used_without_gil(self, [&] { return self.next_bytes(view, &may_end); });
            std::string out;
            for (size_t b = 0; b < 256; ++b)
              if (next.test(b)) out += static_cast<char>(b);
            return std::make_tuple(to_bytes(out), may_end);
          },
          "after"_a = nb::bytes("", 0))
      // The declared names that may come next in an object, whether each is required, and whether undeclared names may
      // come.
      .def(
          "key_offers",
          [](Matcher &self,
             nb::bytes after) -> std::optional<std::tuple<std::vector<std::string>, std::vector<bool>, bool>> {
            const std::string_view view = as_view(after);
            const auto found = used_without_gil(self, [&] {
              return self.with_state(view, [&](StepContext &, const Frame *n, size_t i) {
                return i == view.size() ? for_caller(key_offers(n)) : std::nullopt;
              });
            });
            if (!found) return std::nullopt;
            return std::make_tuple(found->declared, found->required, found->others);
          },
          "after"_a = nb::bytes("", 0))
      .def(
          "witness",
          [](Matcher &self, nb::bytes after, bool patient) -> std::optional<nb::bytes> {
            std::string out;
            const std::string_view view = as_view(after);
            if (!used_without_gil(self, [&] { return self.witness(view, &out, patient); })) return std::nullopt;
            return to_bytes(out);
          },
          "after"_a = nb::bytes("", 0), "patient"_a = true)
      .def("witness_tokens",
           [](Matcher &self) -> std::optional<std::vector<uint32_t>> {
             std::vector<uint32_t> out;
             if (!used_without_gil(self, [&] { return self.witness_tokens(&out); })) return std::nullopt;
             return out;
           })
      .def("search_failure",
           [](Matcher &self) -> std::optional<std::string> {
             const Use use(self.in_use());
             return self.search_failure() ? std::optional<std::string>(self.search_failure()) : std::nullopt;
           })
      .def("least_tokens", exclusive<&Matcher::least_tokens>, "room"_a, nb::call_guard<WithoutGil>())
      .def(
          "describe",
          [](Matcher &self, nb::bytes after) {
            const Use use(self.in_use());
            return describe_to_python(self, as_view(after));
          },
          "after"_a = nb::bytes("", 0));
}

void bind_matcher(nb::module_ &m) {
  nb::class_<Matcher> matcher(m, "Matcher");
  bind_matcher_masks(matcher);
  bind_matcher_steps(matcher);
  bind_matcher_completions(matcher);
}

}  // namespace

void bind_engine(nb::module_ &m) {
  register_token_error();
  bind_vocabulary(m);
  bind_program(m);
  nb::class_<Engine>(m, "Engine")
      .def(
          "__init__",
          [](Engine *self, std::shared_ptr<Vocabulary> v, nb::dict limits) {
            new (self) Engine(std::move(v), limits_from(limits));
          },
          "vocabulary"_a, "limits"_a = nb::dict())
      .def("compile", &Engine::compile, "ir"_a)
      .def_prop_ro("memory", &Engine::memory)
      .def_prop_ro("mask_memory", &Engine::mask_memory);
  bind_matcher(m);

  m.def("before_fork", &before_fork, nb::call_guard<WithoutGil>());
  m.def("after_fork", &after_fork);
  m.def(
      "fill_masks",
      [](std::vector<Matcher *> matchers, nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out,
         unsigned threads) {
        if (out.shape(0) < matchers.size())
          throw std::out_of_range("the bitmask has fewer rows than there are matchers");
        int32_t *data = out.data();
        size_t words = out.shape(1);
        std::set<Matcher *> each(matchers.begin(), matchers.end());
        WithoutGil release;
        std::deque<Use> used;
        for (Matcher *matcher : each) used.emplace_back(matcher->in_use());
        fill_masks(matchers, data, words, threads);
      },
      "matchers"_a, "out"_a, "threads"_a = 1);
}

}  // namespace structgen
