#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "kernels/matmul/tuning.hpp"

namespace mylos::kernels {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "mylos-products";
constexpr std::int64_t kVersion = 2;                           // 1 had no tiles
constexpr std::int64_t kMostElements = std::int64_t(1) << 40;  // of an extent or a stride
constexpr std::size_t kMostText = 256;
constexpr int kOperands = 4;

// An object of the file, its path for messages ("products[3].shape"), and its keys as they are asked for.
class Object {
 public:
  Object(const Json& value, std::string file, std::string path)
      : value_(value), file_(std::move(file)), path_(std::move(path)) {
    check(value.is_object(), "{}: {} is not an object", file_, path_.empty() ? "the whole" : path_);
  }

  const Json& at(const char* key) {
    const auto found = value_.find(key);
    check(found != value_.end(), "{}: {} is missing", file_, name(key));
    ++asked_;
    return *found;
  }
  bool has(const char* key) const { return value_.contains(key); }
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) {
    return integer(at(key), name(key), low, high);
  }
  bool truth(const char* key) {
    const Json& x = at(key);
    check(x.is_boolean(), "{}: {} is not true or false", file_, name(key));
    return x.get<bool>();
  }
  std::string text(const char* key) {
    const Json& x = at(key);
    check(x.is_string(), "{}: {} is not a string", file_, name(key));
    std::string s = x.get<std::string>();
    const bool plain = std::all_of(s.begin(), s.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7F; });
    check(s.size() <= kMostText && plain, "{}: {} has {} bytes or control characters; it may have {} bytes and none",
          file_, name(key), s.size(), kMostText);
    return s;
  }
  double microseconds(const char* key) {
    const Json& x = at(key);
    check(x.is_number(), "{}: {} is not a number", file_, name(key));
    const double v = x.get<double>();
    check(v >= 0 && v < 1e12, "{}: {} is {}; it must be from 0 to 1e12", file_, name(key), v);
    return v;
  }
  DType dtype(const char* key) {
    const std::string s = text(key);
    check(s == "f32" || s == "bf16", "{}: {} is \"{}\"; products are of \"f32\" or \"bf16\"", file_, name(key), s);
    return dtype_of(s);
  }
  std::array<std::int64_t, kOperands> operands(const char* key, std::int64_t high) {
    const Json& x = at(key);
    check(x.is_array() && x.size() == kOperands, "{}: {} is not a list of {} whole numbers", file_, name(key),
          kOperands);
    std::array<std::int64_t, kOperands> r{};
    for (std::size_t i = 0; i < kOperands; ++i) r[i] = integer(x[i], fmt::format("{}[{}]", name(key), i), 1, high);
    return r;
  }
  AlgorithmBytes algorithm(const char* key) {
    const std::string hex = text(key);
    AlgorithmBytes bytes{};
    bool ok = hex.size() == bytes.size() * 16;
    for (std::size_t i = 0; ok && i < hex.size(); ++i) {
      const char c = hex[i];
      ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      bytes[i / 16] = bytes[i / 16] << 4 | std::uint64_t(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    check(ok, "{}: {} is not {} hexadecimal digits 0-9 a-f", file_, name(key), bytes.size() * 16);
    return bytes;
  }
  // Each known key was there once, so whatever is more is unknown.
  void expect_no_other_key(std::initializer_list<const char*> known) {
    if (value_.size() == asked_) return;
    for (const auto& [key, ignored] : value_.items())
      check(std::find(known.begin(), known.end(), key) != known.end(), "{}: {} has a key that this build does not know",
            file_, path_.empty() ? "the file" : path_);
  }
  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }
  std::string name(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  std::int64_t integer(const Json& x, const std::string& what, std::int64_t low, std::int64_t high) const {
    check(x.is_number_integer(), "{}: {} is not a whole number", file_, what);
    const bool fits = x.is_number_unsigned() ? x.get<std::uint64_t>() <= std::uint64_t(high) &&
                                                   x.get<std::uint64_t>() >= std::uint64_t(low)
                                             : x.get<std::int64_t>() >= low && x.get<std::int64_t>() <= high;
    check(fits, "{}: {} is {}; it must be from {} to {}", file_, what, x.dump(), low, high);
    return x.get<std::int64_t>();
  }

  const Json& value_;
  std::string file_, path_;
  std::size_t asked_ = 0;
};

// Refuses an object with a key twice, of which the parser would keep one.
struct OneOfEachKey {
  std::string file;
  std::vector<std::set<std::string>> open = {};  // keys of the objects that are not at their end

  bool operator()(int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key)
      check(open.back().insert(parsed.get<std::string>()).second,
            "{}: the key {} stands twice in one object; leave one, or delete the file and run 'mylos tune' again", file,
            parsed.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kMostText));
    return true;
  }
};

ProductShape shape_from(Object o) {
  ProductShape s;
  s.m = o.integer("m", 1, kMostElements);
  s.n = o.integer("n", 1, kMostElements);
  s.l = o.integer("l", 1, kMostElements);
  s.transpose_a = o.truth("transpose_a");
  s.transpose_b = o.truth("transpose_b");
  s.in = o.dtype("in");
  s.out = o.dtype("out");
  s.adds = o.truth("adds");
  s.stride = o.operands("stride", kMostElements);
  s.alignment = o.operands("alignment", 256);
  for (const std::int64_t a : s.alignment)
    check(std::has_single_bit(std::uint64_t(a)), "{}: {} has {}, which is no power of two", o.file(),
          o.name("alignment"), a);
  o.expect_no_other_key({"m", "n", "l", "transpose_a", "transpose_b", "in", "out", "adds", "stride", "alignment"});
  return s;
}

TileOptions tiles_from(Object o) {
  const TileOptions tiles{.strip = int(o.integer("strip", 1, 1024)),
                          .lag = int(o.integer("lag", 0, TileOptions::kMostLag))};
  o.expect_no_other_key({"strip", "lag"});
  return tiles;
}

nlohmann::ordered_json to_json(const ProductShape& s) {
  return {{"m", s.m},
          {"n", s.n},
          {"l", s.l},
          {"transpose_a", s.transpose_a},
          {"transpose_b", s.transpose_b},
          {"in", name_of(s.in)},
          {"out", name_of(s.out)},
          {"adds", s.adds},
          {"stride", s.stride},
          {"alignment", s.alignment}};
}

std::string hex_of(const AlgorithmBytes& bytes) {
  std::string s;
  for (const std::uint64_t word : bytes) s += fmt::format("{:016x}", word);
  return s;
}

}  // namespace

ProductCache ProductCache::parse(std::string_view json, const std::string& name) {
  check(std::int64_t(json.size()) <= kMaxBytes, "{}: {} bytes; a cache of products has at most {}", name, json.size(),
        kMaxBytes);
  check(json.find('\0') == json.npos, "{}: not JSON: it has a zero byte; delete it and run 'mylos tune' again", name);
  const Json whole = Json::parse(json, OneOfEachKey{name}, false);
  check(!whole.is_discarded(), "{}: not JSON; delete it and run 'mylos tune' again", name);
  Object top(whole, name, "");
  const std::string format = top.text("format");
  check(format == kFormat, "{}: format is \"{}\", expected \"{}\"", name, format, kFormat);
  const std::int64_t version = top.integer("version", 1, 1 << 30);
  check(version <= kVersion, "{}: version {} is not known to this build, which reads versions 1 to {}", name, version,
        kVersion);
  const Json& products = top.at("products");
  check(products.is_array(), "{}: products is not a list", name);
  top.expect_no_other_key({"format", "version", "products"});

  ProductCache cache;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const std::string path = fmt::format("products[{}]", i);
    Object o(products[i], name, path);
    const ProductLibrary library{o.text("device"), o.integer("library", 1, std::int64_t(1) << 40)};
    TunedProduct p;
    p.shape = shape_from(Object(o.at("shape"), name, path + ".shape"));
    const bool tiles = version >= 2 && o.has("tiles");
    check(!tiles || !o.has("algorithm"), "{}: {} has an algorithm of the library and tiles of our own; it can have one",
          name, path);
    if (tiles) {
      p.tiles = tiles_from(Object(o.at("tiles"), name, path + ".tiles"));
    } else {
      p.algorithm = o.algorithm("algorithm");
    }
    p.description = o.text("description");
    p.time_us = o.microseconds("time_us");
    p.first_time_us = o.microseconds("first_time_us");
    o.expect_no_other_key(
        {"device", "library", "shape", tiles ? "tiles" : "algorithm", "description", "time_us", "first_time_us"});
    check(cache.products_.emplace(std::pair(library, p.shape), p).second, "{}: {} is the second entry of {} on {}",
          name, path, describe(p.shape), library.device);
  }
  return cache;
}

std::string ProductCache::to_json() const {
  nlohmann::ordered_json products = nlohmann::ordered_json::array();
  for (const auto& [key, p] : products_) {
    nlohmann::ordered_json entry;
    entry["device"] = key.first.device;
    entry["library"] = key.first.version;
    entry["shape"] = kernels::to_json(p.shape);
    if (p.tiles) {
      entry["tiles"] = {{"strip", p.tiles->strip}, {"lag", p.tiles->lag}};
    } else {
      entry["algorithm"] = hex_of(p.algorithm);
    }
    entry["description"] = p.description;
    entry["time_us"] = p.time_us;
    entry["first_time_us"] = p.first_time_us;
    products.push_back(std::move(entry));
  }
  const nlohmann::ordered_json whole = {{"format", kFormat}, {"version", kVersion}, {"products", std::move(products)}};
  return whole.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void ProductCache::put(const ProductLibrary& library, const TunedProduct& product) {
  TunedProduct kept = product;
  kept.pinned = false;
  products_.insert_or_assign(std::pair(library, product.shape), std::move(kept));
}

std::vector<TunedProduct> ProductCache::of(const ProductLibrary& library) const {
  std::vector<TunedProduct> found;
  for (const auto& [key, p] : products_)
    if (key.first == library) found.push_back(p);
  return found;
}

}  // namespace mylos::kernels
