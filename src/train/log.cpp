#include "train/log.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "measure/bundle.hpp"

namespace mylos::train {

using Json = nlohmann::ordered_json;

namespace {

Json parts(const std::vector<measure::SourceSample>& samples, const std::vector<std::string>& names) {
  Json json = Json::object();
  for (const measure::SourceSample& p : samples)
    json[names[p.source]] = {{"loss", p.loss}, {"valid_tokens", p.valid_tokens}};
  return json;
}

}  // namespace

JsonLog::JsonLog(const std::string& path, std::vector<std::string> sources, std::vector<std::string> validation_sets)
    : path_(path), sources_(std::move(sources)), validation_sets_(std::move(validation_sets)) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  // Held before it is cut: another run may have begun it meanwhile.
  out_.open(path, std::ios::app);
  check(out_.good(), "cannot write the log '{}'; set output.log to a place that can be written", path);
  lock_.emplace(path, kWork);
  std::filesystem::resize_file(path, 0, error);
  check(!error, "cannot empty the log '{}': {}", path, error.message());
}

void JsonLog::line(const std::string& json) {
  out_ << json << '\n' << std::flush;
  check(out_.good(), "writing to the log '{}' failed; is the disk full?", path_);
}

void JsonLog::start(std::int64_t parameters, std::int64_t steps, const std::string& bundle) {
  line(Json{{"event", "start"}, {"time", utc_now()}, {"parameters", parameters}, {"steps", steps}, {"bundle", bundle}}
           .dump());
}

void JsonLog::step(const measure::StepSample& s) {
  const double tokens_per_s = s.step_time_s > 0 ? double(s.tokens) / s.step_time_s : 0;
  Json json{{"event", "step"},
            {"step", s.step},
            {"loss", s.loss},
            {"grad_norm", s.grad_norm},
            {"lr", s.learning_rate},
            {"tokens", s.tokens},
            {"valid_tokens", s.valid_tokens},
            {"step_time_s", s.step_time_s},
            {"data_wait_s", s.data_wait_s},
            {"tokens_per_s", tokens_per_s}};
  if (!s.sources.empty()) json["sources"] = parts(s.sources, sources_);
  line(json.dump());
}

void JsonLog::evaluation(const measure::EvaluationSample& s) {
  Json json{{"event", "evaluation"}, {"step", s.step},
            {"loss", s.loss},        {"bits_per_byte", s.bits_per_byte},  // null when not known
            {"tokens", s.tokens},    {"time_s", s.time_s}};
  if (!s.sets.empty()) json["sets"] = parts(s.sets, validation_sets_);
  line(json.dump());
}

void JsonLog::end(const std::string& status, std::int64_t steps) {
  line(Json{{"event", "end"}, {"time", utc_now()}, {"status", status}, {"steps", steps}}.dump(
      -1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace mylos::train
