"""What can be evaluated: TokenSTN and every rival, which have the same call."""

from tokenstn.baselines import Rival
from tokenstn.models import TokenSTN

Method = TokenSTN | Rival
