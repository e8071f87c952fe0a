// The file that --benchmark_out names: written by Google Benchmark's reporters, and whole or not there.
//
// Google Benchmark ends the process when it cannot open the file, and does not look whether what it wrote has arrived. So the path is tried before
// anything is measured (Error), and a file that was not written to its end (a full disk, a limit, an error of the run) is removed.
#pragma once

#include <memory>
#include <string>

namespace benchmark {
class BenchmarkReporter;
}

namespace mylos::bench {

class ReportFile {
 public:
  // An empty path: no file; "json" or "console". A file that is there is replaced: whoever asks has checked that it may be.
  ReportFile(std::string path, const std::string& format);
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  benchmark::BenchmarkReporter* reporter();  // null without a file
  void finish();                             // after the last report: Error when the file is not whole

 private:
  std::string path_;
  bool begun_ = false;  // what is at the path is this run's
  bool whole_ = false;
  std::unique_ptr<benchmark::BenchmarkReporter> reporter_;
};

}  // namespace mylos::bench
