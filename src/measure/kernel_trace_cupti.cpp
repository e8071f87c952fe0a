// Kernel records of a GPU: CUPTI's activity records, given to regions by its callbacks.
//
// A launch is known by its correlation number, which a callback hears on the host together with the open region; a node of a graph by its
// own number, which a callback hears when the node is made, that is while the graph is recorded.
#include "base/error.hpp"
#include "measure/kernel_trace_cupti_calls.hpp"
#include "measure/kernel_trace_impl.hpp"

#if defined(MYLOS_CUPTI_FOLDERS)
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>
#endif

namespace mylos::measure {

#if defined(MYLOS_CUPTI_FOLDERS)

namespace {

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};
constexpr CUpti_CallbackDomain kLaunches[] = {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API};
constexpr std::size_t kBufferBytes = std::size_t(8) << 20, kBufferAlignment = 8;

class CuptiTrace;
std::atomic<CuptiTrace*> g_trace{nullptr};  // CUPTI's buffers come back without a word of whose they are

class CuptiTrace final : public KernelTrace::Impl {
 public:
  CuptiTrace() : queuing_(std::this_thread::get_id()) {
    std::uint32_t version = 0;
    cupti_ok(cupti_calls().version(&version), "asking CUPTI for its version");
    all.source = fmt::format("CUPTI {}", version);
    cupti_ok(cupti_calls().subscribe(&subscriber_, heard, this), "subscribing to CUPTI");
    g_trace = this;
    try {
      cupti_ok(cupti_calls().register_buffers(give_buffer, take_buffer), "giving CUPTI buffers");
      for (const CUpti_CallbackIdResource id :
           {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
        cupti_ok(cupti_calls().enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id),
                 "listening to nodes of graphs");
    } catch (...) {
      leave();
      throw;
    }
  }

  ~CuptiTrace() override {
    if (recording_) {
      for (const CUpti_ActivityKind kind : kKinds) cupti_calls().disable(kind);
      cupti_calls().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    }
    leave();
  }

  void start() override {
    {
      const std::lock_guard lock(mutex_);
      launches_.clear();
      raw_.clear();
      too_many_ = false;
      dropped_ = 0;
    }
    recording_ = true;
    for (const CUpti_CallbackDomain domain : kLaunches)
      cupti_ok(cupti_calls().enable_domain(1, subscriber_, domain), "listening to launches");
    for (const CUpti_ActivityKind kind : kKinds) cupti_ok(cupti_calls().enable(kind), "recording kernels");
  }

  KernelRecords stop() override {
    for (const CUpti_CallbackDomain domain : kLaunches)
      cupti_ok(cupti_calls().enable_domain(0, subscriber_, domain), "leaving launches alone");
    cupti_ok(cupti_calls().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "collecting CUPTI's records");
    for (const CUpti_ActivityKind kind : kKinds)
      cupti_ok(cupti_calls().disable(kind), "ending the recording of kernels");
    recording_ = false;
    const std::lock_guard lock(mutex_);
    check(!too_many_, "more than {} kernels ran while they were recorded; profile fewer steps",
          KernelTrace::kMostRecords);
    check(dropped_ == 0, "CUPTI lost {} records: the profile would not be whole; profile fewer steps", dropped_);
    // Launches and nodes are looked up only now: a buffer may come back before the host has left the call that launched.
    for (Raw& r : raw_) {
      const auto launch = launches_.find(r.launch);
      if (launch != launches_.end()) {
        r.record.mark = launch->second.mark;
        r.record.region = launch->second.region;
      }
      if (r.node != 0) {
        const auto node = nodes_.find(r.node);
        r.record.region = node != nodes_.end() ? node->second : 0;
      }
      all.records.push_back(r.record);
    }
    raw_.clear();
    return all;
  }

 private:
  struct Launch {
    std::uint32_t region;
    std::int32_t mark;
  };
  struct Raw {
    KernelRecord record;
    std::uint32_t launch;
    std::uint64_t node;
  };

  void leave() {
    cupti_calls().unsubscribe(subscriber_);
    g_trace = nullptr;
  }

  static void CUPTIAPI heard(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
    static_cast<CuptiTrace*>(self)->hear(domain, id, data);
  }

  void hear(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
    const bool queuing = std::this_thread::get_id() == queuing_;
    const std::uint32_t here = queuing ? region : 0;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
      const auto* resource = static_cast<const CUpti_ResourceData*>(data);
      const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
      std::uint64_t node = 0, original = 0;
      if (cupti_calls().node_number(graph->node, &node) != CUPTI_SUCCESS) return;
      const std::lock_guard lock(mutex_);
      if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED &&
          cupti_calls().node_number(graph->originalNode, &original) == CUPTI_SUCCESS) {
        const auto known = nodes_.find(original);
        if (known != nodes_.end()) nodes_[node] = known->second;
      } else if (here != 0) {
        nodes_.emplace(node, here);
      }
      return;
    }
    const auto* call = static_cast<const CUpti_CallbackData*>(data);
    if (!queuing || call->callbackSite != CUPTI_API_ENTER) return;
    const std::lock_guard lock(mutex_);
    launches_[call->correlationId] = {here, mark};
  }

  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
    *bytes = *buffer != nullptr ? kBufferBytes : 0;  // without a buffer CUPTI drops records, and counts them
    *most_records = 0;
  }

  static void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                                   std::size_t valid) {
    if (CuptiTrace* const trace = g_trace) {
      trace->read(buffer, valid);
      std::size_t dropped = 0;
      if (cupti_calls().dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) {
        const std::lock_guard lock(trace->mutex_);
        trace->dropped_ += dropped;
      }
    }
    std::free(buffer);
  }

  void read(std::uint8_t* buffer, std::size_t valid) {
    const std::lock_guard lock(mutex_);
    CUpti_Activity* activity = nullptr;
    while (cupti_calls().next_record(buffer, valid, &activity) == CUPTI_SUCCESS) {
      if (raw_.size() >= KernelTrace::kMostRecords) {
        too_many_ = true;
        return;
      }
      switch (activity->kind) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
          const auto& k = *reinterpret_cast<const CUpti_ActivityKernel10*>(activity);
          Raw& r = add(k, k.name, KernelKind::kernel);
          r.record.grid = {k.gridX, k.gridY, k.gridZ};
          r.record.block = {k.blockX, k.blockY, k.blockZ};
          break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
          const auto& c = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(activity);
          const char* const name = c.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy host to device"
                                   : c.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy device to host"
                                   : c.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD ? "copy within the device"
                                                                                   : "copy";
          add(c, name, KernelKind::copy).record.bytes = std::int64_t(c.bytes);
          break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY2: {
          const auto& c = *reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(activity);
          add(c, "copy between devices", KernelKind::copy).record.bytes = std::int64_t(c.bytes);
          break;
        }
        case CUPTI_ACTIVITY_KIND_MEMSET: {
          const auto& s = *reinterpret_cast<const CUpti_ActivityMemset4*>(activity);
          add(s, "set", KernelKind::set).record.bytes = std::int64_t(s.bytes);
          break;
        }
        default:
          break;
      }
    }
  }

  template <class Activity>
  Raw& add(const Activity& a, const char* name, KernelKind kind) {
    raw_.push_back({{.begin_ns = std::int64_t(a.start),
                     .end_ns = std::int64_t(a.end),
                     .name = name_place(name != nullptr ? name : "unnamed kernel"),
                     .stream = a.streamId,
                     .kind = kind,
                     .in_graph = a.graphNodeId != 0},
                    a.correlationId,
                    a.graphNodeId});
    return raw_.back();
  }

  const std::thread::id queuing_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool recording_ = false;
  std::mutex mutex_;  // CUPTI hands buffers over on threads of its own
  std::unordered_map<std::uint32_t, Launch> launches_;
  std::unordered_map<std::uint64_t, std::uint32_t> nodes_;  // regions of graphs' nodes
  std::vector<Raw> raw_;
  bool too_many_ = false;
  std::size_t dropped_ = 0;
};

}  // namespace

std::unique_ptr<KernelTrace::Impl> cupti_trace() { return std::make_unique<CuptiTrace>(); }

#else

std::unique_ptr<KernelTrace::Impl> cupti_trace() {
  fail(
      "this build cannot profile kernels of a GPU: there was no cupti.h beside the CUDA toolkit when it was "
      "configured");
}

#endif

}  // namespace mylos::measure
