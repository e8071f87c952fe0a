#include "data/corpus_inspect.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/file.hpp"
#include "data/tokenizer.hpp"

namespace mylos::data {
namespace fs = std::filesystem;
namespace {

// Totals of a side, its unfinished shard included.
Sidecar total_of(const std::vector<CorpusShard>& shards) {
  Sidecar total;
  total.documents = total.tokens = total.text_bytes = 0;
  for (const CorpusShard& s : shards) {
    total.documents += s.stated.documents;
    total.tokens += s.stated.tokens;
    total.text_bytes += s.stated.text_bytes;
  }
  return total;
}

class Inspection {
 public:
  Inspection(CorpusReport& report, bool sha256) : report_(report), sha256_(sha256) {}

  void go() {
    const CorpusManifest& m = report_.manifest;
    if (!m.complete)
      problem("the run has not ended: {} of {} inputs are done; start it again with the same arguments to go on",
              m.position.file, m.inputs.size());
    report_.train = shards_of("train", m.train);
    report_.validation = shards_of("validation", m.validation);
    check_strangers();
    check_tokenizer();
  }

 private:
  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    report_.problems.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  std::string path_of(const std::string& file) const { return (fs::path(report_.folder) / file).string(); }

  std::vector<CorpusShard> shards_of(const char* stem, const ShardState& state) {
    std::vector<CorpusShard> shards;
    for (const Sidecar& s : state.closed) shards.push_back(inspect_shard(shard_name(stem, shards.size()), s));
    // What it holds beyond its last record does not count, so no more is asked of it than to be there.
    if (state.open) {
      const std::string file = shard_name(stem, shards.size()) + ".partial";
      known_.insert(file);
      shards.push_back({file, *state.open, size_of_file(file)});
    }
    return shards;
  }

  CorpusShard inspect_shard(std::string file, const Sidecar& stated) {
    if (!report_.manifest.complete && size_of_file(file + ".partial") >= 0) file += ".partial";
    known_.insert(file);
    const std::int64_t expected = stated.tokens * size_of(stated.dtype);
    const CorpusShard shard{file, stated, size_of_file(file)};
    if (shard.bytes < 0) {
      problem("{} is missing", file);
      return shard;
    }
    if (shard.bytes != expected)
      problem("{} has {} bytes, the manifest says {} ({} {} tokens)", file, shard.bytes, expected, stated.tokens,
              name_of(stated.dtype));
    else if (sha256_)
      if (const std::string sum = sha256_of(path_of(file)); sum != stated.sha256)
        problem("the SHA-256 of {} is {}, the manifest says {}", file, sum, stated.sha256);
    if (report_.manifest.complete) check_sidecar(file, stated);
    return shard;
  }

  void check_sidecar(const std::string& file, const Sidecar& stated) {
    try {
      const auto sidecar = read_sidecar(path_of(file));
      if (!sidecar) return problem("{} has no sidecar {}", file, sidecar_path(file));
      Sidecar expected = stated;
      expected.container = sidecar->container;
      if (write_sidecar(*sidecar) != write_sidecar(expected))
        problem("the sidecar of {} and the manifest say different things", file);
    } catch (const Error& e) {
      problem("{}", e.what());
    }
  }

  // Files that data.train = ".../train-*.bin" would take for a part of this corpus.
  void check_strangers() {
    std::vector<std::string> strangers;
    for (const auto& entry : fs::directory_iterator(report_.folder)) {
      const std::string file = entry.path().filename().string();
      if (entry.path().extension() == ".bin" && !known_.contains(file)) strangers.push_back(file);
    }
    std::sort(strangers.begin(), strangers.end());
    for (const std::string& file : strangers) problem("{} is not in the manifest", file);
  }

  void check_tokenizer() {
    const CorpusManifest& m = report_.manifest;
    if (m.tokenizer == "byte") return;
    try {
      if (const std::string sum = sha256_of(path_of(m.tokenizer)); sum != m.tokenizer_sha256)
        problem("the SHA-256 of {} is {}, the manifest says {}", m.tokenizer, sum, m.tokenizer_sha256);
      const auto tokenizer = make_tokenizer(path_of(m.tokenizer));
      if (tokenizer->vocab() != m.vocab || tokenizer->end_of_text() != m.end_of_text)
        problem("{} has {} tokens and {} ends a text, the manifest says {} and {}", token_bytes_path(m.tokenizer),
                tokenizer->vocab(), tokenizer->end_of_text(), m.vocab, m.end_of_text);
    } catch (const Error& e) {
      problem("{}", e.what());
    }
  }

  std::int64_t size_of_file(const std::string& file) const {
    std::error_code error;
    const auto size = fs::file_size(path_of(file), error);
    return error ? -1 : std::int64_t(size);
  }

  CorpusReport& report_;
  bool sha256_;
  std::set<std::string> known_;
};

std::string line_of(std::string_view name, std::string_view documents, std::string_view tokens, std::string_view text,
                    std::string_view bytes) {
  return fmt::format("  {:<28} {:>12} {:>16} {:>18} {:>18}\n", name, documents, tokens, text, bytes);
}

}  // namespace

CorpusReport inspect_corpus(const std::string& folder, bool sha256) {
  auto manifest = read_manifest(folder);
  check(manifest.has_value(), "'{}' is missing: '{}' was not made by `mylos tokenize`; name a token file instead",
        manifest_path(folder), folder);
  CorpusReport report{folder, std::move(*manifest), {}, {}, {}};
  Inspection(report, sha256).go();
  return report;
}

std::string describe(const CorpusReport& r) {
  const CorpusManifest& m = r.manifest;
  std::int64_t input_bytes = 0;
  for (const InputFile& i : m.inputs) input_bytes += i.bytes;
  std::string text = fmt::format("{}\n  tokenizer  {}, vocabulary {}, end of text {}\n", r.folder, m.tokenizer, m.vocab,
                                 m.end_of_text);
  if (!m.lossy.empty()) text += fmt::format("  lossy      {}\n", m.lossy);
  text += fmt::format("  inputs     {} files of {}, {} left out\n\n", m.inputs.size(), format_bytes(input_bytes),
                      m.left_out.size());
  text += line_of("shard", "documents", "tokens", "bytes of text", "bytes of file");
  for (const auto& [name, shards] : {std::pair{"train", &r.train}, std::pair{"validation", &r.validation}}) {
    const auto row = [&](std::string_view file, const Sidecar& s, std::string_view bytes) {
      text += line_of(file, std::to_string(s.documents), std::to_string(s.tokens), std::to_string(s.text_bytes), bytes);
    };
    for (const CorpusShard& s : *shards) row(s.file, s.stated, s.bytes < 0 ? "missing" : std::to_string(s.bytes));
    const Sidecar total = total_of(*shards);
    row(fmt::format("{} ({} shards)", name, shards->size()), total,
        total.tokens > 0 ? fmt::format("{:.2f} B of text/token", double(total.text_bytes) / double(total.tokens)) : "");
  }
  text += '\n';
  for (const std::string& p : r.problems) text += "  PROBLEM    " + p + "\n";
  if (r.problems.empty()) text += "  sound\n";
  return text;
}

std::string to_json(const CorpusReport& r) {
  nlohmann::ordered_json j;
  j["folder"] = r.folder;
  j["complete"] = r.manifest.complete;
  j["tokenizer"] = {
      {"name", r.manifest.tokenizer}, {"vocab", r.manifest.vocab}, {"end_of_text", r.manifest.end_of_text}};
  if (!r.manifest.lossy.empty()) j["tokenizer"]["lossy"] = r.manifest.lossy;
  j["inputs"] = r.manifest.inputs.size();
  j["left_out"] = r.manifest.left_out.size();
  for (const auto& [name, shards] : {std::pair{"train", &r.train}, std::pair{"validation", &r.validation}}) {
    const auto counts = [](const Sidecar& s) {
      return nlohmann::ordered_json{{"documents", s.documents}, {"tokens", s.tokens}, {"text_bytes", s.text_bytes}};
    };
    j[name] = counts(total_of(*shards));
    j[name]["shards"] = nlohmann::ordered_json::array();
    for (const CorpusShard& s : *shards) {
      nlohmann::ordered_json shard = counts(s.stated);
      shard["file"] = s.file;
      shard["bytes"] = s.bytes;
      j[name]["shards"].push_back(shard);
    }
  }
  j["problems"] = r.problems;
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace mylos::data
