"""What a classifier does under every pose, and when not to trust it.

Photos are moved in their original pixels (``photos``), answered (``orbit``), and judged: ``scores``, ``flips``,
``calibration``, ``pose``, ``uncertainty``, ``controls``, ``cost``. ``evaluate`` does all of it and returns the values
of ``results``, from which reports are drawn. Import from these modules: ``results`` alone needs no torch.
"""
