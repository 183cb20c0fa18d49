from lightbox.base.errors import BadRequest as BadRequest
from lightbox.base.errors import LightboxError as LightboxError
from lightbox.base.errors import Unavailable as Unavailable
from lightbox.tools.offline import Model as Model
from lightbox.tools.offline import load as load
from lightbox.tools.offline import ray as ray
from lightbox.user_code.aws import Context as Context
from lightbox.user_code.handlers import Request as Request

__version__: str
