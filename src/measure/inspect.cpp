#include "measure/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/isolate.hpp"
#include "checkpoint/store.hpp"
#include "measure/bench_record_file.hpp"
#include "measure/kernel_trace_bundle.hpp"

namespace mylos::measure {

using checkpoint::Attributes;
using checkpoint::AttributeValue;
using checkpoint::DatasetInfo;
using checkpoint::Reader;
using checkpoint::Trust;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kShownText = 16 << 10;  // bytes of a text that the JSON holds; configurations and plans fit

Json to_json(const AttributeValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json to_json(const Attributes& attributes) {
  Json j = Json::object();
  for (const auto& [name, value] : attributes) j[name] = to_json(value);
  return j;
}

// JSON has no NaN; null stands for it.
Json number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

Json describe_reals(const Reader& file, const std::string& name, const DatasetInfo& info) {
  if (info.shape.empty()) return {{"value", number(file.real(name))}};
  const std::vector<double> values = file.reals(name);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::int64_t not_finite = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) {
      ++not_finite;
      continue;
    }
    low = std::min(low, v);
    high = std::max(high, v);
  }
  Json j;
  if (!values.empty())
    j = {{"first", number(values.front())},
         {"last", number(values.back())},
         {"min", number(low)},
         {"max", number(high)}};
  if (not_finite > 0) j["not_finite"] = not_finite;
  return j.is_null() ? Json::object() : j;
}

Json describe(const Reader& file, const std::string& name) {
  const DatasetInfo info = file.info(name);
  Json j;
  j["dtype"] = info.is_text ? std::string("text") : std::string(name_of(info.dtype));
  j["shape"] = info.shape;
  for (const char* key : {"units", "description"})
    if (info.attributes.count(key)) j[key] = to_json(info.attributes.at(key));
  for (const auto& [key, value] : info.attributes)
    if (key != "dtype" && key != "units" && key != "description" && key != "sha256") j[key] = to_json(value);
  if (info.is_text) {
    if (info.bytes() > kShownText) {
      j["bytes"] = info.bytes();
      file.verify(name);
    } else if (info.shape.empty()) {
      j["value"] = file.text(name);
    } else {
      j["value"] = file.texts(name);
    }
  } else if (info.dtype == DType::f64) {
    j.update(describe_reals(file, name, info));
  } else if (info.dtype == DType::i64 && info.elements() <= 64) {
    std::vector<std::int64_t> values(std::size_t(info.elements()));
    file.read(name, DType::i64, info.shape, values.data());
    j["value"] = info.shape.empty() ? Json(values.at(0)) : Json(values);
  }
  return j;
}

std::string to_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string one_line(const std::string& text) {
  constexpr std::size_t kMost = 160;
  std::string line = text.substr(0, kMost);
  std::replace(line.begin(), line.end(), '\n', ' ');
  // What was cut is no sign of its own.
  while (text.size() > kMost && !line.empty() && !is_utf8(line) && is_utf8(text)) line.pop_back();
  return printable(line) + (text.size() > kMost ? " ..." : "");
}

Json summary_of(const std::string& path) {
  const Reader file(path, Trust::isolated);
  Json j;
  j["file"] = path;
  j["attributes"] = to_json(file.attributes("/"));
  for (const std::string& name : file.walk()) {
    if (name == "/") continue;
    if (file.has_group(name)) {
      j["groups"][name] = to_json(file.attributes(name));
    } else {
      j["datasets"][name] = describe(file, name);
    }
  }
  if (const Attributes root = file.attributes("/"); root.count("kind") && root.at("kind") == AttributeValue("bench"))
    j["cases"] = bench_table(file);
  if (has_kernels(file)) j["kernels"] = kernel_summary(file);
  return j;
}

std::string dump(const Json& j) { return j.dump(2, ' ', false, Json::error_handler_t::replace); }

std::string value_text(const Json& d) {
  const std::string units =
      d.contains("units") && to_text(d["units"]) != "1" ? fmt::format(" {}", one_line(to_text(d["units"]))) : "";
  if (d.contains("value")) {
    const Json& v = d["value"];
    const std::string text = v.is_number_float() ? fmt::format("{:.6g}", v.get<double>())
                             : v.is_null()       ? "NaN"
                                                 : to_text(v);
    return one_line(text) + units;
  }
  const std::string shape = d["shape"].dump();
  if (d.contains("first")) {
    const auto real = [&](const char* key) {
      return d[key].is_null() ? std::string("NaN") : fmt::format("{:.6g}", d[key].get<double>());
    };
    return fmt::format("{} first {}, last {}, min {}, max {}{}", shape, real("first"), real("last"), real("min"),
                       real("max"), units);
  }
  return fmt::format("{} {}{}", to_text(d["dtype"]), shape, units);
}

std::string as_text(const Json& j) {
  std::string out = one_line(j["file"].get<std::string>()) + "\n";
  const auto attributes = [&](const Json& values, const char* indent) {
    for (const auto& [name, value] : values.items())
      out += fmt::format("{}{:<24} {}\n", indent, one_line(name), one_line(to_text(value)));
  };
  attributes(j["attributes"], "  ");
  std::map<std::string, Json> objects;
  if (j.contains("groups"))
    for (const auto& [name, value] : j["groups"].items()) objects[name] = value;
  if (j.contains("datasets"))
    for (const auto& [name, value] : j["datasets"].items()) objects[name] = value;
  for (const auto& [name, value] : objects) {
    const bool is_dataset = j.contains("datasets") && j["datasets"].contains(name);
    if (is_dataset) {
      out += fmt::format("{:<44} {}\n", one_line(name), value_text(value));
    } else {
      out += one_line(name) + "\n";
      attributes(value, "    ");
    }
  }
  if (j.contains("cases")) out += bench_table_text(j["cases"]);
  if (j.contains("kernels"))
    for (const auto& [name, text] : j["kernels"].items())
      out += fmt::format("\nkernels: {}\n{}", name, name == "table" ? to_text(text) : printable(to_text(text)) + "\n");
  out.pop_back();  // the caller ends the last line, as it does for the JSON
  return out;
}

}  // namespace

std::string inspect_json(const std::string& path) {
  return checkpoint::run_isolated(path, checkpoint::reading_limit_s(path), [&] { return dump(summary_of(path)); });
}

std::string inspect_text(const std::string& path) {
  // The JSON that came out of the child is ours, whatever the file held.
  return as_text(Json::parse(inspect_json(path)));
}

}  // namespace mylos::measure
