// An Oclgrind plugin that writes down every access of a work-item to global memory, in order.
//
// Two files, named by the environment variable MEMSIM_OCLGRIND_OUT, which may change between
// launches:
//   <out>           one Access a record (see below), in the order in which they happened
//   <out>.launches  one line a launch: kernel name, then the names of its arguments, tab-separated
//
// Built with -fno-rtti and the old std::string, as Oclgrind's wheel is (see harness.py).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "Context.h"
#include "Kernel.h"
#include "KernelInvocation.h"
#include "Memory.h"
#include "Plugin.h"
#include "WorkGroup.h"
#include "WorkItem.h"

using namespace oclgrind;

// Private in Kernel.h; the key under which an argument's value is stored.
extern "C" const llvm::Value *memsim_argument(const Kernel *kernel, unsigned index)
  asm("_ZNK8oclgrind6Kernel11getArgumentEj");

namespace
{

enum Kind : uint32_t
{
  LOAD,
  STORE,
  ATOMIC_LOAD,
  ATOMIC_STORE
};

struct Access
{
  uint32_t launch, group, item;
  uint32_t kind;
  uint32_t argument; // index; 0xffffffff where the buffer is not an argument of the kernel
  uint32_t size_bytes;
  uint64_t offset_bytes;
};

class Record : public Plugin
{
public:
  explicit Record(const Context *context) : Plugin(context)
  {
  }

  ~Record() override
  {
    close();
  }

  // One worker thread, then: records of different groups do not interleave.
  bool isThreadSafe() const override
  {
    return false;
  }

  void kernelBegin(const KernelInvocation *invocation) override
  {
    open();
    const Kernel *kernel = invocation->getKernel();
    m_groups = invocation->getNumGroups();
    m_argument.clear();
    fputs(kernel->getName().c_str(), m_launches);
    for (unsigned i = 0; i < kernel->getNumArguments(); i++)
    {
      llvm::StringRef name = kernel->getArgumentName(i);
      fprintf(m_launches, "\t%.*s", int(name.size), name.data);
      if (kernel->getArgumentAddressQualifier(i) != CL_GLOBAL)
        continue;
      const llvm::Value *key = memsim_argument(kernel, i);
      for (auto value = kernel->values_begin(); value != kernel->values_end(); ++value)
        if (value->first == key)
        {
          size_t address = value->second.getPointer();
          m_argument[m_context->getGlobalMemory()->extractBuffer(address)] = i;
        }
    }
    fputc('\n', m_launches);
  }

  void kernelEnd(const KernelInvocation *) override
  {
    m_launch++;
    fflush(m_accesses);
    fflush(m_launches);
  }

  void memoryLoad(const Memory *memory, const WorkItem *item, size_t address, size_t size) override
  {
    write(LOAD, memory, item, address, size);
  }

  void memoryStore(const Memory *memory, const WorkItem *item, size_t address, size_t size,
                   const uint8_t *) override
  {
    write(STORE, memory, item, address, size);
  }

  void memoryAtomicLoad(const Memory *memory, const WorkItem *item, AtomicOp, size_t address,
                        size_t size) override
  {
    write(ATOMIC_LOAD, memory, item, address, size);
  }

  void memoryAtomicStore(const Memory *memory, const WorkItem *item, AtomicOp, size_t address,
                         size_t size) override
  {
    write(ATOMIC_STORE, memory, item, address, size);
  }

private:
  static const unsigned CL_GLOBAL = 0x119B; // CL_KERNEL_ARG_ADDRESS_GLOBAL

  std::string m_out;
  FILE *m_accesses = nullptr, *m_launches = nullptr;
  uint32_t m_launch = 0;
  Size3 m_groups;
  std::map<size_t, uint32_t> m_argument; // buffer number -> argument index

  void open()
  {
    const char *out = getenv("MEMSIM_OCLGRIND_OUT");
    if (!out)
      abort();
    if (m_out == out)
      return;
    close();
    m_out = out;
    m_launch = 0;
    m_accesses = fopen(out, "wb");
    m_launches = fopen((m_out + ".launches").c_str(), "w");
    if (!m_accesses || !m_launches)
      abort();
  }

  void close()
  {
    if (m_accesses)
      fclose(m_accesses);
    if (m_launches)
      fclose(m_launches);
    m_accesses = m_launches = nullptr;
  }

  void write(Kind kind, const Memory *memory, const WorkItem *item, size_t address, size_t size)
  {
    if (!m_accesses || !item || memory->getAddressSpace() != AddrSpaceGlobal)
      return;
    const WorkGroup *group = item->getWorkGroup();
    Size3 local = item->getLocalID(), extent = group->getGroupSize(), id = group->getGroupID();
    auto found = m_argument.find(memory->extractBuffer(address));
    Access access;
    access.launch = m_launch;
    // Not getGroupIndex(): that gives (1, 0) and (0, 1) of a 2 x 2 grid the same number.
    access.group = uint32_t(id.x + m_groups.x * (id.y + m_groups.y * id.z));
    access.item = uint32_t(local.x + extent.x * (local.y + extent.y * local.z));
    access.kind = kind;
    access.argument = found == m_argument.end() ? 0xffffffffu : found->second;
    access.size_bytes = uint32_t(size);
    access.offset_bytes = memory->extractOffset(address);
    fwrite(&access, sizeof access, 1, m_accesses);
  }
};

Record *the_plugin;

} // namespace

extern "C" void initializePlugins(Context *context)
{
  the_plugin = new Record(context);
  context->registerPlugin(the_plugin);
}

extern "C" void releasePlugins(Context *context)
{
  context->unregisterPlugin(the_plugin);
  delete the_plugin;
}
