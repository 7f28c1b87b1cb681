// The shortest objects: which keys are there, and by what each keyword group that must fail does fail.
#include <algorithm>
#include <set>

#include "json/shortest/shortest.h"
#include "util/sorting.h"

namespace structgen {
namespace {

constexpr uint64_t MAX_FILLED = 20'000;  // keys that only minProperties asks for

}  // namespace

struct Shortest::ObjectChoice {
  const Groups &yes, &no;
  ObjectControl *o;
  Candidate *best;
  uint64_t min = 0, max = UNBOUNDED;
  std::unordered_map<uint32_t, Formula> known{};  // by key of the universe: what `yes` asks of its value
  std::map<uint32_t, std::vector<Formula>> keys{};  // those that are there, with further demands
  std::set<uint32_t> omitted{};
  std::vector<std::pair<size_t, std::vector<Formula>>> extras{};  // of a class (its index), with demands
  std::vector<std::pair<uint32_t, Re>> classes{};
  std::vector<Formula> class_base{};

  uint64_t count() const { return keys.size() + extras.size(); }
};

void Shortest::objects(ObjectControl *o, Candidate *best) {
  const KeyUniverse &u = *o->universe;
  bool all_ways;
  for (const auto &[yes, no] : ways(c_.goals_[o->goal].combined, &all_ways)) {
    if (best->length <= EMPTY_CONTAINER) return;
    if (!spend(1)) return;
    ObjectChoice q{yes, no, o, best};
    uint64_t sum = 0;
    for (SchemaId g : yes) {
      const Groups mine{g};
      q.min = std::max(q.min, c_.schema_.nodes[g].min_properties);
      q.max = std::min(q.max, c_.schema_.nodes[g].max_properties);
      const std::vector<std::string> required = c_.schema_.nodes[g].required;
      for (const std::string &name : required) {
        charge(search_work(q.keys.size()));
        const auto i = static_cast<uint32_t>(u.find(name));
        if (!q.keys.try_emplace(i).second) continue;
        sum += key_length(name) + length(base(q, i));
        if (sum >= best->length) break;
      }
    }
    if (sum >= best->length || q.min > q.max || q.keys.size() > q.max) continue;
    if (!no.empty() || q.min > q.keys.size()) {
      q.classes = c_.extra_classes(o);
      for (auto &[matched, re] : q.classes) {
        std::vector<Formula> all;
        for (SchemaId g : yes) all.push_back(c_.extra_requirement(g, *o, matched));
        q.class_base.push_back(re == RegexSpace::EMPTY ? FormulaSpace::FALSE : c_.formulas_.conjunction(std::move(all)));
        if (matched == UINT32_MAX) doubt();  // keys that are not told apart
      }
    }
    violate(q, 0, sum);
  }
  if (!all_ways && best->length > EMPTY_CONTAINER) doubt();
}

Formula Shortest::base(ObjectChoice &q, uint32_t key) {
  const auto [it, fresh] = q.known.try_emplace(key, FormulaSpace::FALSE);
  if (!fresh) return it->second;
  std::vector<Formula> all;
  charge(2 + q.yes.size());
  for (SchemaId g : q.yes) all.push_back(c_.key_requirement(g, q.o->universe->keys[key]));
  return it->second = c_.formulas_.conjunction(std::move(all));
}

void Shortest::violate(ObjectChoice &q, size_t next, uint64_t sum) {
  const uint64_t count = q.count();
  if (!spend(1) || count > q.max || q.min > q.max) return;
  // Keys that only minProperties asks for have names, too, and at most one of those is empty.
  const uint64_t owed = q.min > count ? q.min - count : 0, all = count + owed;
  const uint64_t owed_length = owed > 0 && owed <= MAX_FILLED ? owed * 5 - 1 : 0;
  if (2 + sum + owed_length + (all > 1 ? all - 1 : 0) >= q.best->length) return;
  if (next == q.no.size()) return finish(q, sum);
  const SchemaId group = q.no[next];
  const KeyUniverse &u = *q.o->universe;
  const std::vector<std::string> required = c_.schema_.nodes[group].required;
  const uint64_t least = c_.schema_.nodes[group].min_properties, most = c_.schema_.nodes[group].max_properties;
  // A required key left out: free.
  for (const std::string &name : required)
    if (q.omitted.count(static_cast<uint32_t>(u.find(name)))) return violate(q, next + 1, sum);
  for (const std::string &name : required) {
    const auto i = static_cast<uint32_t>(u.find(name));
    if (q.keys.count(i)) continue;
    q.omitted.insert(i);
    violate(q, next + 1, sum);
    q.omitted.erase(i);
  }
  // Too few keys, or too many.
  if (least > 0) {
    const uint64_t old = q.max;
    q.max = std::min(q.max, least - 1);
    violate(q, next + 1, sum);
    q.max = old;
  }
  if (most != UNBOUNDED) {
    const uint64_t old = q.min;
    q.min = std::max(q.min, most + 1);
    violate(q, next + 1, sum);
    q.min = old;
  }
  // A value that breaks what the group asks of its key: the cheapest first.
  struct Option {
    uint64_t more;
    bool extra;
    size_t index;   // of the key, or of the extra key that is there
    size_t kind;    // of a new extra key: its class
    Formula broken;
  };
  std::vector<Option> options;
  auto with = [&](Formula base, const std::vector<Formula> &demands, Formula broken) {
    std::vector<Formula> all = demands;
    all.push_back(base);
    if (broken != FormulaSpace::TRUE) all.push_back(broken);
    return length(c_.formulas_.conjunction(std::move(all)));
  };
  auto consider = [&](uint64_t now, uint64_t before, Option o) {
    if (now >= NONE) return;
    o.more = now > before ? now - before : 0;
    options.push_back(o);
  };
  for (uint32_t i = 0; i < u.keys.size(); ++i) {
    charge();
    if (q.omitted.count(i) || base(q, i) == FormulaSpace::FALSE) continue;
    const Formula broken = c_.formulas_.negation(c_.key_requirement(group, u.keys[i]));
    if (broken == FormulaSpace::FALSE) continue;
    if (!spend(1)) return;
    const auto it = q.keys.find(i);
    if (it != q.keys.end())
      consider(with(base(q, i), it->second, broken), with(base(q, i), it->second, FormulaSpace::TRUE),
               {0, false, i, 0, broken});
    else
      consider(with(base(q, i), {}, broken) + key_length(u.keys[i]), 0, {0, false, i, 0, broken});
  }
  for (size_t k = 0; k < q.classes.size(); ++k) {
    if (q.class_base[k] == FormulaSpace::FALSE) continue;
    const Formula broken = c_.formulas_.negation(c_.extra_requirement(group, *q.o, q.classes[k].first));
    if (broken == FormulaSpace::FALSE) continue;
    for (size_t i = 0; i < q.extras.size(); ++i)
      if (q.extras[i].first == k)
        consider(with(q.class_base[k], q.extras[i].second, broken),
                 with(q.class_base[k], q.extras[i].second, FormulaSpace::TRUE), {0, true, i, k, broken});
    consider(with(q.class_base[k], {}, broken), 0, {0, true, SIZE_MAX, k, broken});
  }
  std::stable_sort(options.begin(), options.end(), [](const Option &a, const Option &b) { return a.more < b.more; });
  for (const Option &o : options) {
    if (!o.extra) {
      const auto i = static_cast<uint32_t>(o.index);
      const bool fresh = q.keys.try_emplace(i).second;
      q.keys[i].push_back(o.broken);
      violate(q, next + 1, sum + o.more);
      if (fresh) q.keys.erase(i);
      else q.keys[i].pop_back();
    } else if (o.index == SIZE_MAX) {
      q.extras.push_back({o.kind, {o.broken}});
      violate(q, next + 1, sum + o.more);
      q.extras.pop_back();
    } else {
      q.extras[o.index].second.push_back(o.broken);
      violate(q, next + 1, sum + o.more);
      q.extras[o.index].second.pop_back();
    }
  }
}

ShortestTexts &Shortest::extra_texts(const ObjectControl &o, Re language) {
  RegexSpace &space = c_.text_.regex();
  Re re = language;
  if (!o.universe->keys.empty()) re = space.intersect(re, space.complement(space.literals(o.universe->keys)));
  re = c_.text_.writable(re);
  auto &slot = texts_[re];
  if (!slot) slot = std::make_unique<ShortestTexts>(space, re);
  return *slot;
}

void Shortest::finish(ObjectChoice &q, uint64_t sum) {
  const KeyUniverse &u = *q.o->universe;
  const uint64_t owed = q.min > q.count() ? q.min - q.count() : 0;
  if (owed > MAX_FILLED) return doubt(SearchFailure::Keys);
  std::vector<size_t> taken(q.classes.size(), 0);  // texts of each class that are in use
  std::vector<Part> parts;
  auto conjunction = [&](Formula base, const std::vector<Formula> &demands) {
    std::vector<Formula> all = demands;
    all.push_back(base);
    return c_.formulas_.conjunction(std::move(all));
  };
  for (auto &[i, demands] : q.keys) {
    charge(3);
    parts.push_back({u.keys[i], conjunction(base(q, i), demands), 1});
  }
  auto text_of = [&](size_t k, size_t i) {
    ShortestTexts &texts = extra_texts(*q.o, q.classes[k].second);
    const std::string *text = texts.get(i);
    if (!text && texts.exhausted()) doubt();
    return text;
  };
  for (auto &[k, demands] : q.extras) {
    const std::string *text = text_of(k, taken[k]++);
    if (!text) return;
    sum += key_length(*text);
    parts.push_back({*text, conjunction(q.class_base[k], demands), 1});
  }
  if (owed > 0) {
    struct More {
      uint64_t length;
      Part part;
    };
    std::vector<More> more;
    for (uint32_t i = 0; i < u.keys.size(); ++i) {
      charge(1 + search_work(q.keys.size()));
      if (q.keys.count(i) || q.omitted.count(i)) continue;
      const uint64_t value = length(base(q, i));
      if (value < NONE) more.push_back({key_length(u.keys[i]) + value, {u.keys[i], base(q, i), 1}});
    }
    for (size_t k = 0; k < q.classes.size(); ++k) {
      if (q.class_base[k] == FormulaSpace::FALSE) continue;
      const uint64_t value = length(q.class_base[k]);
      if (value >= NONE) continue;
      for (uint64_t i = 0; i < owed && spend(1); ++i) {
        const std::string *text = text_of(k, taken[k] + i);
        if (!text) break;
        more.push_back({key_length(*text) + value, {*text, q.class_base[k], 1}});
      }
    }
    if (more.size() < owed) return;
    charge(more.size() * search_work(more.size()));
    std::stable_sort(more.begin(), more.end(), [](const More &a, const More &b) { return a.length < b.length; });
    for (uint64_t i = 0; i < owed; ++i) {
      sum += more[i].length;
      parts.push_back(std::move(more[i].part));
    }
  }
  const uint64_t total = 2 + sum + (parts.size() > 1 ? parts.size() - 1 : 0);
  if (total >= q.best->length) return;
  // Declared keys in their order, then the others: what the option `ordered` asks for, and easy to read.
  std::vector<std::pair<size_t, size_t>> order;  // the rank of a part, and where it is
  for (size_t at = 0; at < parts.size(); ++at) {
    const int64_t i = u.find(parts[at].key);
    order.emplace_back(i < 0 ? u.keys.size() : u.rank[static_cast<size_t>(i)], at);
  }
  sort_numbers(order.begin(), order.end());
  std::vector<Part> in_order;
  in_order.reserve(parts.size());
  charge(parts.size());
  for (auto &[rank, at] : order) in_order.push_back(std::move(parts[at]));
  *q.best = {Candidate::Object, total, {}, std::move(in_order)};
}

}  // namespace structgen
