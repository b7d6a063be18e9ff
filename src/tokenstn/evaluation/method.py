"""What can be evaluated, TokenSTN and every rival, and how it is called."""

from typing import Literal

from tokenstn.baselines import Rival
from tokenstn.models import TokenSTN

Method = TokenSTN | Rival
Views = int | Literal["auto"]
Sampling = Literal["probable", "random"]
