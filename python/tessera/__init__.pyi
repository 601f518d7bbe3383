from tessera import registry as registry, report as report
from tessera._check import Check as Check, ReferenceMismatch as ReferenceMismatch, check as check
from tessera._device_array import DeviceArray as DeviceArray
from tessera._devices import devices as devices
from tessera._kernel import kernel as kernel
from tessera._record import record as record
from tessera._report import KernelError as KernelError, Report as Report
from tessera._session import capture as capture, make_goldens as make_goldens, simulate as simulate
from tessera._sweep import Sweep as Sweep, sweep as sweep
from tessera._triton_report import TritonReport as TritonReport
from tessera._tuned import autotune as autotune, overlay as overlay
from tessera._triton_session import simulate_triton as simulate_triton

__version__: str
