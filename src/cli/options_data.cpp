// Text, tokens, and looking into them.
#include <memory>

#include "cli/options.hpp"

namespace mylos::cli {

constexpr std::int64_t kMostTokens = std::int64_t(1) << 53;

void add_data_commands(CLI::App& app, Chosen& chosen) {
  struct State {
    data::TokenizeOptions tokenize_options;
    DetokenizeArguments text;
    DataInspectArguments data_arguments;
    DataValidateArguments validating;
    DataIndexArguments indexing;
  };
  const auto s = std::make_shared<State>();

  auto* tokenize = app.add_subcommand("tokenize", "turn text or JSONL into token shards");
  tokenize->add_option("inputs", s->tokenize_options.inputs, "files, globs or folders")->required();
  tokenize->add_option("--out", s->tokenize_options.out, "folder for the shards")->required();
  tokenize
      ->add_option("--tokenizer", s->tokenize_options.tokenizer,
                   "byte, a tokenizer.json, a SentencePiece .model, or train:V")
      ->capture_default_str();
  tokenize->add_option("--extension", s->tokenize_options.extensions, "of the files that a folder is searched for")
      ->capture_default_str();
  tokenize->add_option("--jsonl-field", s->tokenize_options.jsonl_field, "field of a JSONL line that holds the text")
      ->capture_default_str();
  tokenize->add_option("--validation-fraction", s->tokenize_options.validation_fraction, "of the documents, 0 to 0.5")
      ->check(within(0.0, 0.5, "0 keeps all of them for training"))
      ->capture_default_str();
  tokenize->add_option("--shard-tokens", s->tokenize_options.shard_tokens, "tokens of a shard")
      ->check(within<std::int64_t>(1, std::int64_t(1) << 40, "without the option it is 268435456"))
      ->capture_default_str();
  tokenize->add_flag("--skip-invalid", s->tokenize_options.skip_invalid, "leave out files that are not UTF-8");
  tokenize->add_flag("--allow-lossy", s->tokenize_options.allow_lossy,
                     "take a tokenizer that does not give back every text, and record that");
  tokenize->add_option("--jobs", s->tokenize_options.jobs, "processes that encode; 0: one a core")
      ->check(within<std::int64_t>(0, 1024, "0 starts one a core"))
      ->capture_default_str();
  tokenize->callback([s, &chosen] { chosen.command = [s] { return cli::tokenize(s->tokenize_options); }; });

  auto* detokenize = app.add_subcommand("detokenize", "write the text behind a token file, byte for byte");
  detokenize->add_option("file", s->text.options.file, "token file")->required();
  detokenize->add_option("--first", s->text.options.first, "token to begin with")
      ->check(within<std::int64_t>(0, kMostTokens, "the first token is 0"))
      ->capture_default_str();
  detokenize->add_option("--count", s->text.options.count, "tokens; -1: to the end")
      ->check(within<std::int64_t>(-1, kMostTokens, "-1 goes to the end"))
      ->capture_default_str();
  detokenize->add_option("--tokenizer", s->text.options.tokenizer,
                         "byte, a tokenizer.json or a .model; default: the sidecar's");
  detokenize->add_option("--format", s->text.format, "raw, npy, llmc or megatron; default: as recorded with the file");
  detokenize->add_option("--dtype", s->text.dtype, "u16 or u32, for raw tokens without a sidecar");
  detokenize->add_option("-o,--output", s->text.output, "file to write; default: stdout");
  detokenize->callback([s, &chosen] { chosen.command = [s] { return cli::detokenize(s->text); }; });

  auto* data = app.add_subcommand("data", "look into token files");
  data->require_subcommand(1);
  auto* data_inspect = data->add_subcommand("inspect", "show and check a token file, or a folder that tokenize made");
  data_inspect->add_option("file", s->data_arguments.file, "token file or folder")->required();
  const char* const format_help = "raw, npy, llmc or megatron; default: as recorded with the file";
  const char* const dtype_help = "u16 or u32, for raw tokens without a sidecar";
  data_inspect->add_option("--format", s->data_arguments.format, format_help);
  data_inspect->add_option("--dtype", s->data_arguments.dtype, dtype_help);
  data_inspect->add_option("--tokenizer", s->data_arguments.tokenizer, "to show text; default: the sidecar's");
  data_inspect->add_option("--first", s->data_arguments.first, "where the excerpt begins")
      ->check(within<std::int64_t>(0, kMostTokens, "the first token is 0"))
      ->capture_default_str();
  data_inspect->add_option("--show", s->data_arguments.show, "tokens of the excerpt")
      ->check(within<std::int64_t>(0, kMostTokens, "64 are a line or two"))
      ->capture_default_str();
  data_inspect->add_flag("--sha256", s->data_arguments.sha256, "hold the shards of a folder against their sums");
  data_inspect->add_flag("--json", s->data_arguments.json, "as JSON");
  data_inspect->callback([s, &chosen] { chosen.command = [s] { return cli::data_inspect(s->data_arguments); }; });

  auto* data_validate = data->add_subcommand("validate", "check every token of token files");
  data_validate->add_option("files", s->validating.files, "token files and globs; default: those of --config");
  data_validate->add_option("--vocab", s->validating.vocab, "every token must be below it; default: the sidecar's")
      ->check(within<std::int64_t>(1, std::int64_t(1) << 32, "tokens have 32 bits at most"));
  data_validate->add_option("--config", s->validating.config,
                            "configuration whose model.vocab, format and files count");
  data_validate->add_option("--format", s->validating.format, format_help);
  data_validate->add_option("--dtype", s->validating.dtype, dtype_help);
  data_validate->add_option("--threads", s->validating.threads, "that read; 0: all cores")
      ->check(within<std::int64_t>(0, 512, "0 takes all cores"))
      ->capture_default_str();
  data_validate->add_flag("--no-sha256", s->validating.no_sha256, "leave out the sums that sidecars state");
  data_validate->callback([s, &chosen] { chosen.command = [s] { return cli::data_validate(s->validating); }; });

  auto* data_index = data->add_subcommand("index", "write where documents end beside token files: FILE.documents");
  data_index->add_option("files", s->indexing.files, "token files and globs")->required();
  data_index->add_option("--end-token", s->indexing.end_token, "it ends a document; default: the sidecar's end_of_text")
      ->check(within<std::int64_t>(0, (std::int64_t(1) << 32) - 1, "tokens have 32 bits at most"));
  data_index->add_option("--format", s->indexing.format, format_help);
  data_index->add_option("--dtype", s->indexing.dtype, dtype_help);
  data_index->add_option("--threads", s->indexing.threads, "that read; 0: all cores")
      ->check(within<std::int64_t>(0, 512, "0 takes all cores"))
      ->capture_default_str();
  data_index->callback([s, &chosen] { chosen.command = [s] { return cli::data_index(s->indexing); }; });

  auto* data_plan = data->add_subcommand("plan", "show sources, packing and mixture of a configuration");
  data_plan->add_option("config", chosen.config.path, "configuration (TOML)")->required();
  data_plan->callback([&chosen] { chosen.command = [&chosen] { return cli::data_plan(chosen.config); }; });
}

}  // namespace mylos::cli
